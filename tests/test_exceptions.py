"""Errors and warnings: what they carry, and how Python and the shell word them."""

import ast
import pickle
import re
import warnings
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

import tdlg
from tdlg.checks import check_count
from tdlg.cli.group import in_shell_words
from tdlg.exceptions import EdgesError, ParameterError, ReadError, TdlgError, TdlgWarning, warn
from test_cli import refused


def shell(running, **commands):
    """The context of a group of commands with these options, one of which runs."""
    of_group = {
        name: SimpleNamespace(
            params=[SimpleNamespace(name=one, opts=[f"--{one}"], param_type_name="option") for one in given]
        )
        for name, given in commands.items()
    }
    group = SimpleNamespace(get_command=lambda context, name: of_group.get(name))
    return SimpleNamespace(command=group, invoked_subcommand=running)


# ---- in Python


def test_an_error_carries_parameter_and_hint():
    with pytest.raises(ParameterError) as caught:
        check_count("LineGraph", "n_threads", 0, 1)
    assert (caught.value.parameter, caught.value.hint) == ("n_threads", "")
    frame = pd.DataFrame({"user": [1], "payer": [2], "to": [3], "time": [4]})
    with pytest.raises(ReadError) as caught:
        tdlg.from_frame(frame)
    assert caught.value.hint == "Pass src='user', or another."
    assert str(caught.value) == f"{caught.value.problem} {caught.value.hint}"
    with pytest.raises(ReadError) as caught:
        tdlg.from_frame(frame, src="nobody")
    assert caught.value.parameter == "src"


def test_every_parameter_error_says_which_parameter():
    without = []
    for path in sorted(Path(tdlg.__file__).parent.rglob("*.py")):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        raised = [call for call in calls if getattr(call.func, "id", "") == "ParameterError"]
        is_told = [any(keyword.arg == "parameter" for keyword in call.keywords) for call in raised]
        without += [f"{path}:{call.lineno}" for call, told in zip(raised, is_told, strict=True) if not told]
    assert not without


def test_a_plain_message_has_no_hint():
    error = TdlgError("It is {wrong}.")
    assert (str(error), error.problem, error.hint, error.parameter) == ("It is {wrong}.", "It is {wrong}.", "", None)


def test_errors_are_pickled():
    error = EdgesError("It is wrong.", "Pass decay=NoDecay().", "Or not.", parameter="decay")
    error.row = 7
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is EdgesError
    assert (str(copy), copy.row, copy.parameter) == ("It is wrong. Pass decay=NoDecay(). Or not.", 7, "decay")
    assert in_shell_words(copy, shell("links", links=["method"])) == "It is wrong. Pass another --method. Or not."


def test_warnings_carry_hints():
    with pytest.warns(TdlgWarning, match=re.escape("Late. Fit with setting='forecast'.")) as caught:
        warn("Late.", "Fit with setting='forecast'.")
    message = caught[0].message
    assert (message.problem, message.hint) == ("Late.", "Fit with setting='forecast'.")
    assert caught[0].filename == __file__
    context = shell("score", score=["top"], classify=["setting"])
    assert in_shell_words(message, context) == "Late. Fit with --setting forecast."
    assert str(pickle.loads(pickle.dumps(message))) == str(message)


# ---- in the shell


@pytest.mark.parametrize(
    ("hint", "wanted"),
    [
        ("""Pass src="it's".""", """No. Pass --src 'it'"'"'s'."""),
        ("Pass src=0.", "No. Pass --src 0."),
        ("Pass src=, or not.", "No. Pass --src, or not."),
        ("Pass src='src=, dst=3' twice.", "No. Pass --src 'src=, dst=3' twice."),
        (r"Pass src='a\\'.", r"No. Pass --src 'a\'."),
        ("Pass bipartite=True.", "No. Pass --bipartite."),
        ("Pass features=['a', 'b'].", "No. Pass --features a,b."),
        ("Pass random_state=3.", "No. Pass --seed 3."),
        ("Pass tol=1.", "No."),
        ("Pass decay=NoDecay().", "No."),  # only another command has --method
        ("Use `H @ x`.", "No."),
        ("Do it.", "No. Do it."),
    ],
)
def test_hints_as_options(hint, wanted):
    context = shell("info", info=["src", "bipartite", "features", "seed"], links=["method"])
    assert in_shell_words(TdlgError("No.", hint), context) == wanted


@pytest.mark.parametrize("node", ["src=3", "np.float64(3)", "model.save(path)", "time_format='%d'", "{label}", "{row}"])
def test_values_of_the_data_are_never_rewritten(tmp_path, node):
    (path := tmp_path / "x.csv").write_text(f'src,dst,time\na,b,1\n"{node}",,2\n')
    text = refused("info", path)
    assert f"(src: {node!r}, dst: None, time: 2)" in text
    (path := tmp_path / "y.csv").write_text(f'src,dst,"{node}"\na,b,1\n')
    text = refused("info", path)
    assert f"The columns are ['src', 'dst', {node!r}]. Pass --time with a name." in text


# ---- a label among the columns of X


def test_a_label_in_a_frame_is_reported():
    frame = pd.DataFrame({"src": list("abca"), "dst": list("bcab"), "time": range(4), "label": [0, 1, 0, 1]})
    model = tdlg.LineGraphClassifier(random_state=0)
    with pytest.raises(
        EdgesError, match=re.escape("target y is None. Leave it out of X and pass it as y, or use `from_frame(X,")
    ):
        model.fit(frame)
    with pytest.warns(TdlgWarning, match="The column 'label' of X is taken as a feature, not as the label"):
        model.fit(frame, frame["label"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(frame)
        model.fit(frame.drop(columns="label"), frame["label"])
        model.fit(tdlg.from_frame(frame, label="label"))
