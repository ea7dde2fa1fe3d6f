"""Answers that must stay as they are: numbers and texts in tests/golden/, how they are compared, and how they are renewed.

Where an answer changes on purpose, or with another version of scikit-learn, write them anew, look at the difference, and
say in the commit why it is right:

    TDLG_RENEW=1 python -m pytest -n 0 tests/test_same_answers.py tests/test_same_output.py tests/test_odd_files.py
"""

import json
import os
import re
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).parent / "golden"
DIGITS = 10
N_SHOWN = 10  # values of an answer that are kept one by one
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def renews() -> bool:
    return os.environ.get("TDLG_RENEW") == "1"


def digest(values) -> dict:
    """The shape of an answer, some of its values, and a sum that depends on all of them and on their order."""
    values = np.asarray(values, np.float64)
    flat = np.nan_to_num(values.ravel(), nan=-1.0)
    some = np.unique(np.linspace(0, len(flat) - 1, N_SHOWN).astype(int))
    whole = float(flat @ np.cos(np.arange(len(flat)))) / max(len(flat), 1)
    return {"shape": list(values.shape), "some": _rounded(flat[some]), "whole": _rounded([whole])[0]}


def check_answer(file: str, case: str, values, *, atol: float = 1e-8, rtol: float = 0.0) -> None:
    """Compare an answer with the one in tests/golden/."""
    found = digest(values)
    if renews():
        _renew(file, case, found)
    kept = _read(file)[case]
    assert found["shape"] == kept["shape"], case
    np.testing.assert_allclose(found["some"], kept["some"], rtol=rtol, atol=atol, err_msg=case)
    np.testing.assert_allclose(found["whole"], kept["whole"], rtol=rtol, atol=atol, err_msg=case)


def check_columns(file: str, case: str, names, columns) -> None:
    """Compare the names of columns, their order, and one number per column with those in tests/golden/."""
    columns = np.asarray(columns)
    wholes = np.nan_to_num(columns, nan=-1.0).T @ np.cos(np.arange(len(columns))) / len(columns)
    found = dict(zip(list(names), _rounded(wholes), strict=True))
    if renews():
        _renew(file, case, found)
    kept = _read(file)[case]
    assert list(found) == list(kept)
    differing = {name: (value, kept[name]) for name, value in found.items() if abs(value - kept[name]) > 1e-8}
    assert not differing, f"{case}, now and as kept: {differing}"


def check_text(name: str, text: str) -> None:
    """Compare a text with the one in tests/golden/: words exactly, numbers to five digits."""
    path = GOLDEN / name
    if renews():
        path.write_text(text, encoding="utf-8")
    kept = path.read_text(encoding="utf-8")
    assert NUMBER.sub("0", text).splitlines() == NUMBER.sub("0", kept).splitlines()
    for found, wanted in zip(text.splitlines(), kept.splitlines(), strict=True):
        numbers = ([float(number) for number in NUMBER.findall(line)] for line in (found, wanted))
        np.testing.assert_allclose(*numbers, rtol=1e-5, atol=1e-9, err_msg=f"now:  {found}\nkept: {wanted}")


def check_exactly(file: str, case: str, text: str) -> None:
    """Compare a text, to the letter, with the one in tests/golden/."""
    if renews():
        _renew(file, case, text)
    assert text == _read(file)[case]


def _rounded(values) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in np.asarray(values).tolist()]


def _read(file: str) -> dict:
    path = GOLDEN / file
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _renew(file: str, case: str, found: dict | str) -> None:
    kept = _read(file) | {case: found}
    lines = [f"{json.dumps(name)}: {json.dumps(kept[name])}" for name in sorted(kept)]
    (GOLDEN / file).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
