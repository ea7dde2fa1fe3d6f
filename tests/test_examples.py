"""Each script in examples/ runs, says what examples/README.md shows, and says what to do where there are no data."""

import os
import re
import runpy
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
ON_DATA = ["which_ratings_to_review.py", "where_will_they_post_next.py", "does_the_network_help_my_model.py"]
ON_NONE = ["operator_demo.py"]
TO_READ = ["kafka_to_tdlg.py"]  # which needs a server
FIGURE = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e-?\d+)?%?")
NO_DATA = 77


def run(name, **variables):
    command = [sys.executable, "-W", "error", EXAMPLES / name]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables})


def shown():
    """What the page says that each script prints."""
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    return dict(re.findall(r"```console\n\$ python examples/(\S+)\n(.*?)```", page, re.DOTALL))


def answer(text):
    """The first two paragraphs, in words and figures; what is told of single edges after that is not compared."""
    paragraphs = " ".join(" ".join(text.strip().split("\n\n")[:2]).split())
    return FIGURE.sub("#", paragraphs).split(), [value(found) for found in FIGURE.findall(paragraphs)]


def value(figure):
    number = float(figure.rstrip("%").replace(",", ""))
    return number / 100 if figure.endswith("%") else number


def check_answer(text, text_shown):
    (words, figures), (words_shown, figures_shown) = answer(text), answer(text_shown)
    assert words == words_shown
    assert figures == pytest.approx(figures_shown, rel=0.05, abs=0.015)


def test_the_page_shows_every_script():
    assert sorted(shown()) == sorted(ON_DATA + ON_NONE)
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == sorted(ON_DATA + ON_NONE + TO_READ)


@pytest.mark.parametrize("name", TO_READ)
def test_a_script_to_read_is_python_and_on_the_page(name):
    compile((EXAMPLES / name).read_text(encoding="utf-8"), name, "exec")
    assert f"[{name}]({name})" in (EXAMPLES / "README.md").read_text(encoding="utf-8")


def test_a_message_that_is_not_json_does_not_end_the_kafka_example(monkeypatch, capsys):
    names = ("Consumer", "Producer", "TopicPartition")
    monkeypatch.setitem(sys.modules, "confluent_kafka", SimpleNamespace(**dict.fromkeys(names)))
    example = runpy.run_path(str(EXAMPLES / "kafka_to_tdlg.py"))
    asked, written = [], []

    def submit(events, position):
        asked.append((events, position))
        return [SimpleNamespace(id=event["id"], score=0.5, alert=False, error=None) for event in events]

    values = [b'{"id": 1}', b"{", None, b'{"id": 2}']
    messages = [
        SimpleNamespace(value=lambda value=value: value, offset=lambda k=k: k)
        for k, value in enumerate(values, start=7)
    ]
    producer = SimpleNamespace(produce=lambda topic, value, key: written.append((topic, key)), flush=lambda: None)
    example["answer"](SimpleNamespace(submit=submit), messages, producer, "scores")
    assert asked == [([{"id": 1}, {"id": 2}], {"offset": 11})]
    assert written == [("scores", "1"), ("scores", "2")]
    assert [line.split(" is skipped")[0] for line in capsys.readouterr().err.splitlines()] == ["offset 8", "offset 9"]


@pytest.mark.needs("data", "time")
@pytest.mark.parametrize("name", ON_DATA)
def test_the_answer_is_the_one_shown(name, data_dir):
    done = run(name, TDLG_DATA=str(data_dir))
    assert (done.returncode, done.stderr) == (0, "")
    check_answer(done.stdout, shown()[name])


@pytest.mark.parametrize("name", ON_DATA)
def test_without_data_it_says_what_to_do(name, tmp_path, monkeypatch, capsys):
    for variable, value in {"TDLG_DATA": "", "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}.items():
        monkeypatch.setenv(variable, value)
    for variable in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")  # where nobody answers
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(variable, "")
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (NO_DATA, "")
    assert re.search(r"^The data set '.*' is not on this machine.* put the file .* into the folder .*tdlg", err)


@pytest.mark.parametrize("name", ON_NONE)
def test_a_script_that_needs_no_data(name):
    done = run(name)
    assert (done.returncode, done.stderr) == (0, "")
    error = re.search(r"largest error .*: (\S+) of a row sum", done.stdout)
    assert float(error[1]) < 1e-9
    check_answer(done.stdout, shown()[name])


# The figure that each notebook ends with, and the least that it is.
NOTEBOOKS = {
    "payments": ("found", 0.5),
    "attacks": ("share", 0.9),
    "ratings": ("auc", 0.8),
    "next_partner": ("among_ten", 0.3),
}


@pytest.mark.needs("data", "time", "marimo")
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_as_a_script(name, data_dir, monkeypatch):
    monkeypatch.setenv("TDLG_DATA", str(data_dir))
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # of marimo's own imports
        outputs, defined = runpy.run_path(str(EXAMPLES / "notebooks" / f"{name}.py"))["app"].run()
    figure, least = NOTEBOOKS[name]
    assert least <= defined[figure] <= 1
    assert sum(output is not None for output in outputs) >= 4


def test_every_notebook_is_tested():
    notebooks = {path.stem for path in (EXAMPLES / "notebooks").glob("*.py")}
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert notebooks == set(NOTEBOOKS) == set(re.findall(r"\(notebooks/(\w+)\.py\)", page))
