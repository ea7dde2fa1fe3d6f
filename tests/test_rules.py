"""Rules: counts and sums are those of plain loops, in a table as in a stream; mistakes are told with their line."""

import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from live_payments import EDGES, LABEL_TIME, N_FITTED, N, classifier, event, events
from tdlg.cli import app
from tdlg.exceptions import ParameterError
from tdlg.judge.backtest import backtest
from tdlg.judge.trials import Periods
from tdlg.live import rules as rules_module
from tdlg.live.lines import answer_line
from tdlg.live.model import LiveModel
from tdlg.live.refit import refit
from tdlg.live.review import leave_action
from tdlg.live.rules import RuleState, backtest_rules, parse_rules
from tdlg.live.state import Answer
from tdlg.tables.ids import id_key

pytestmark = pytest.mark.usefixtures("few_trees")

TEXT = """
[lists]
watched = ["customer 1", "terminal 2"]

[[rule]]
name = "often"
all = ["count(src, 2d) >= 3"]

[[rule]]
name = "much in a day"
all = [
  "sum(amount, dst, 1d) > 150",
  "amount >= 10.5",
]

[[rule]]
name = "new and watched"
all = ["first contact (30d)", "node in watched"]

[[rule]]
name = "pair, not by the model"
all = ["count(pair, 40d) > 1", "score < 0.2", "src not in watched"]
"""
DAY = 86_400
FIELDS = {"amount": True, "kind": False}


def plain_loop(rows, unit=1):
    """What the rules of TEXT find for events (src, dst, time, amount, score) in the order in which they come."""
    found, clock, watched = [], -np.inf, {"customer 1", "terminal 2"}
    for k, (src, dst, time, amount, score) in enumerate(rows):
        clock = max(clock, time)

        def within(days, test, until=k, now=clock):
            return [row for row in rows[: until + 1] if test(row) and row[2] > now - days * DAY * unit]

        fired = []
        if len(within(2, lambda row, src=src: row[0] == src)) >= 3:
            fired.append("often")
        amounts = [row[3] for row in within(1, lambda row, dst=dst: row[1] == dst) if row[3] is not None]
        if sum(round(one * 10**9) for one in amounts) > 150 * 10**9 and amount is not None and amount >= 10.5:
            fired.append("much in a day")
        pair = lambda row, ends=(src, dst): row[:2] == ends  # noqa: E731
        if len(within(30, pair)) <= 1 and watched & {src, dst}:
            fired.append("new and watched")
        if len(within(40, pair)) > 1 and score < 0.2 and src not in watched:
            fired.append("pair, not by the model")
        found.append(fired)
    return found


def judged(state, rows):
    src, dst, ticks, amounts, scores = zip(*rows, strict=True)
    found = state.judge(src, dst, ticks, {"amount": amounts}, scores)
    return [[one.name for one in fired] for fired in found]


@st.composite
def streams(draw):
    """Events with ties and late ones, and where the stream is cut into batches."""
    n = draw(st.integers(1, 60))
    one = st.tuples(
        st.sampled_from([f"customer {k}" for k in range(3)]),
        st.sampled_from([f"terminal {k}" for k in range(3)]),
        st.integers(0, 60).map(lambda half: half * DAY // 2),
        st.one_of(st.none(), st.integers(0, 10_000).map(lambda cents: cents / 100)),
        st.sampled_from([0.1, 0.3]),
    )
    rows = draw(st.lists(one, min_size=n, max_size=n))
    rows.sort(key=lambda row: row[2])
    for at in draw(st.lists(st.integers(0, n - 1), max_size=4)):  # these come late
        rows.append(rows.pop(at))
    return rows, sorted(draw(st.lists(st.integers(0, n), max_size=3)))


@settings(max_examples=150, deadline=None)
@given(streams())
def test_a_table_and_a_stream_give_what_a_plain_loop_gives(stream):
    rows, cuts = stream
    rules = parse_rules(TEXT, FIELDS, "s")
    state, found, order = RuleState(rules), [], []
    for start, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        part = rows[start:stop]
        if not part:
            continue
        found += judged(state, part)
        order += [start + k for k in sorted(range(len(part)), key=lambda k, part=part: part[k][2])]
        state = RuleState.restored(json_of(state), "s")  # as from a snapshot
    expected = plain_loop([rows[k] for k in order])
    assert [found[k] for k in order] == expected
    in_order = sorted(rows, key=lambda row: row[2])
    assert judged(RuleState(rules), in_order) == plain_loop(in_order)


def json_of(state):
    return {name: array.copy() for name, array in state.arrays().items()}


def test_withdrawn_events_do_not_count():
    rules = parse_rules('[[rule]]\nname = "x"\nall = ["sum(amount, src, 1d) > 5", "count(src, 1d) > 1"]', FIELDS, "s")
    state, late = RuleState(rules), RuleState(rules)
    state.judge(["a"] * 3, ["b"] * 3, [0, 5, 5], {"amount": [1.5, 3.0, 2.0]}, [0.0] * 3)
    state.withdraw("a", "b", 5, {"amount": 3.0})
    assert late.judge(["a", "a"], ["b", "b"], [0, 5], {"amount": [1.5, 2.0]}, [0.0] * 2) == [(), ()]
    assert json_of(state)["content"].tobytes() == json_of(late)["content"].tobytes()
    (fired,) = state.judge(["a"], ["b"], [9], {"amount": [1.75]}, [0.0])
    assert [one.why for one in fired] == ["sum(amount, src, 1d) = 5.25, count(src, 1d) = 3"]


def test_sums_of_money_are_exact():
    rules = parse_rules('[[rule]]\nname = "x"\nall = ["sum(amount, src, 1d) > 1"]', FIELDS, "s")
    found = RuleState(rules).judge(["a"] * 11, ["b"] * 11, range(11), {"amount": [0.1] * 11}, [0.0] * 11)
    assert [bool(one) for one in found] == [False] * 10 + [True]


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(rules_module, "MOST_HELD", 1000)
    monkeypatch.setattr(rules_module, "LOOK_EVERY", 100)
    rules = parse_rules('[[rule]]\nname = "x"\nall = ["count(src, 1h) > 5"]', FIELDS, "s")
    state = RuleState(rules)
    state.judge([k % 50 for k in range(5000)], [0] * 5000, [60 * k for k in range(5000)], {}, [0.0] * 5000)
    assert state.windows["src"].n < 500, "what is over is forgotten"
    assert state.incomplete_since is None
    state.judge([k % 50 for k in range(2000)], [0] * 2000, [300_000 + k for k in range(2000)], {}, [0.0] * 2000)
    assert state.windows["src"].n <= 1000
    assert 300_900 <= state.incomplete_since <= 301_999, "it says since when it counts"
    again = RuleState.restored(json_of(state), "s")
    more = [k % 50 for k in range(1500)], [0] * 1500, [302_000 + k for k in range(1500)], {}, [0.0] * 1500
    assert again.judge(*more) == state.judge(*more)
    assert again.incomplete_since == state.incomplete_since


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[[rule]\nname = 1", None, "at line 1, column 7"),
        ('x = 1\n[[rule]]\nname = "a"\nall = ["score > 1"]', 1, "Got 'x' instead"),
        ('[[rule]]\nname = "a"\nall = []', 3, "'a' needs conditions"),
        ('[[rule]]\nall = ["score > 1"]', 1, "needs a name"),
        ('[[rule]]\nname = "a"\nwhen = ["score > 1"]', 3, "Got 'when'"),
        ('[[rule]]\nname = "a"\nall = ["score > 1"]\n[[rule]]\nname = "a"\nall = ["score > 1"]', 5, "two rules"),
        ('[[rule]]\nname = "a"\nall = [\n  "score > 1",\n  "amuont > 5",\n]', 5, "did you mean 'amount'?"),
        ('[[rule]]\nname = "a"\nall = ["kind > 5"]', 3, "'kind' has words"),
        ('[[rule]]\nname = "a"\nall = ["amount > many"]', 3, "'many' is not a number"),
        ('[[rule]]\nname = "a"\nall = ["amount"]', 3, "A condition is one of"),
        ('[[rule]]\nname = "a"\nall = ["count(node, 1h) > 5"]', 3, "src, dst or pair, not 'node'"),
        ('[[rule]]\nname = "a"\nall = ["count(src) > 5"]', 3, "A condition is one of"),
        ('[[rule]]\nname = "a"\nall = ["count(src, soon) > 5"]', 3, "Got 'soon'"),
        ('[[rule]]\nname = "a"\nall = ["first contact"]', 3, "as first contact (90d)"),
        ('[lists]\nbad = ["x"]\n[[rule]]\nname = "a"\nall = ["src in bda"]', 5, "did you mean 'bad'?"),
        ('[lists]\nbad = [[1]]', 2, "'bad' must have nodes"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_their_line(text, line, words):
    where = "" if line is None else f", line {line}"
    with pytest.raises(ParameterError, match=re.escape(f"rules.toml{where}: ") + ".*" + re.escape(words)):
        parse_rules(text, FIELDS, "s", "rules.toml")


def test_times_that_are_numbers_have_windows_that_are_numbers():
    rules = parse_rules('[[rule]]\nname = "a"\nall = ["count(src, 2.5) > 1"]', FIELDS, None)
    found = RuleState(rules).judge(["a"] * 3, ["b"] * 3, [0.0, 2.4, 5.0], {}, [0.0] * 3)
    assert [bool(one) for one in found] == [False, True, False]
    with pytest.raises(ParameterError, match="a number above 0"):
        parse_rules('[[rule]]\nname = "a"\nall = ["count(src, 2d) > 1"]', FIELDS, None)


# ---- live


def expected_live(order):
    """What a plain loop finds for the payments, the fitted ones included, at these rows."""
    ticks = EDGES.time.astype("datetime64[s]").astype(np.int64)
    every = [*range(N_FITTED), *order]
    rows = [(EDGES.src[k], EDGES.dst[k], int(ticks[k]), float(EDGES.features[k, 0]), 1.0) for k in every]
    return plain_loop(rows)[N_FITTED:]


def scoreless(names):
    return [name for name in names if name != "pair, not by the model"]


def in_batches(live, order, size=7):
    given = [event(row) for row in order]
    return [answer for k in range(0, len(given), size) for answer in live.submit(given[k : k + size])]


def crash(live):
    live._failure = RuntimeError("killed")
    live._directory._lock.release()


def test_live_is_as_the_table_and_replay_is_exact(tmp_path):
    late = [row for row in range(N_FITTED, N) if row % 29]
    for row in range(N_FITTED, N):
        if not row % 29:
            late.insert(min(len(late), row - N_FITTED + 70), row)  # comes in a batch of its own time, days late
    live = LiveModel.open(tmp_path / "live", classifier(), threshold=2.0)
    live.act({"do": "rules", "text": TEXT})
    answers = in_batches(live, late, 1)
    assert [scoreless(one.rules) for one in answers] == [scoreless(one) for one in expected_live(late)]
    names = {name for one in answers for name in one.rules}
    assert names == {"often", "much in a day", "new and watched", "pair, not by the model"}
    assert all(one.alert == bool(one.rules) for one in answers)
    told, before = live.rules(), live.statistics()["alerts"]
    first = live.alerts("open", 10**6, explained=False)[-1]
    assert live.reason(first.id).startswith(f"rule '{first.rules[0]['name']}': ")
    crash(live)
    with LiveModel.open(tmp_path / "live") as again:  # replays the log from the start
        assert again.rules() == told
        assert again.statistics()["alerts"] == before
        assert [one.rules for one in again.alerts("open", 10**6, explained=False)][-1] == first.rules
        assert json_of(again._state.rules)["content"].tobytes() == json_of(live._state.rules)["content"].tobytes()
        assert [one.rules for one in again.submit(events())] == [one.rules for one in answers_by_row(answers, late)]
    with LiveModel.open(tmp_path / "live") as again:  # from the snapshot
        assert json_of(again._state.rules)["content"].tobytes() == json_of(live._state.rules)["content"].tobytes()


def answers_by_row(answers, order):
    of_row = dict(zip(order, answers, strict=True))
    return [of_row[row] for row in range(N_FITTED, N)]


def test_a_reload_needs_no_restart_and_finds_what_came_before(tmp_path):
    order = [*range(N_FITTED, N)]
    with LiveModel.open(tmp_path / "early", classifier(), threshold=2.0) as live:
        live.act({"do": "rules", "text": TEXT})
        in_batches(live, order[:200])
        want = in_batches(live, order[200:])
    with LiveModel.open(tmp_path / "live", classifier(), threshold=2.0) as live:
        assert not any(one.rules for one in in_batches(live, order[:100]))
        live.act({"do": "rules", "text": '[[rule]]\nname = "x"\nall = ["count(src, 9d) > 1000"]'})
        in_batches(live, order[100:200])
        leave_action(tmp_path / "live", {"do": "rules", "text": TEXT, "by": "", "file": "new.toml"})
        live._looked_at = -1e9
        live.work()
        assert live.rules()["rules"][0]["name"] == "often"
        assert in_batches(live, order[200:]) == want
        with pytest.raises(ParameterError, match=r"other\.toml, line 3: 'amuont > 1': .* did you mean 'amount'"):
            live.act({"do": "rules", "text": '[[rule]]\nname = "x"\nall = ["amuont > 1"]', "file": "other.toml"})
        assert live.rules()["text"] == TEXT
        done = live.audit()
        assert [one["do"] for one in done] == ["rules", "rules"]
        assert "text" not in done[0]
        live.act({"do": "rules", "text": ""})
        assert live.rules() == {"text": "", "rules": [], "incomplete_since": None}


def test_rules_go_on_with_a_new_model(tmp_path):
    order = [*range(N_FITTED, N)]
    with LiveModel.open(tmp_path / "live", classifier(), threshold=2.0) as live:
        live.act({"do": "rules", "text": TEXT})
        in_batches(live, order[:200])
    refit(tmp_path / "live", force=True)
    with LiveModel.open(tmp_path / "live") as live:
        assert live.health()["generation"] == "generation-0002"
        found = in_batches(live, order[200:250])
        live.act({"do": "rules", "text": TEXT.replace("2d", "36h")})
        assert live._state.rules.windows["src"].width == 36 * 3600 * 10**6 or live._state.outcome.unit != "us"
        live.act({"do": "rules", "text": TEXT})  # and back: made again from fitted edges and recent events, each once
        found += in_batches(live, order[250:], 1)
    assert [scoreless(one.rules) for one in found] == [scoreless(one) for one in expected_live(order)[200:]]


def test_counts_and_decisions_are_by_rule(tmp_path):
    with LiveModel.open(tmp_path / "live", classifier(), threshold=2.0) as live:
        live.act({"do": "rules", "text": TEXT})
        in_batches(live, range(N_FITTED, N))
        found = live.alerts("open", 10**6, explained=False)
        live.decide([{"id": found[0].id, "label": 1}, {"id": found[1].id, "label": 0}])
        told = {rule["name"]: rule for rule in live.rules()["rules"]}
        for name, rule in told.items():
            mine = [one for one in found if name in {fired["name"] for fired in one.rules}]
            assert (rule["alerts"], rule["reviewed"]) == (len(mine), sum(one in mine for one in found[:2]))
            assert rule["confirmed"] == (found[0] in mine)


def test_snoozed_and_labelled_events_are_no_alerts_of_rules(tmp_path):
    with LiveModel.open(tmp_path / "live", classifier(), threshold=2.0) as live:
        live.act({"do": "rules", "text": '[[rule]]\nname = "all"\nall = ["amount > -1"]'})
        live.act({"do": "snooze", "nodes": [EDGES.src[N_FITTED]], "until": None})
        snoozed, labelled = live.submit([event(N_FITTED), event(N_FITTED + 1, src="new", label=0)])
        assert [one.alert for one in (snoozed, labelled)] == [False, False]
        assert snoozed.rules == labelled.rules == ("all",)


def test_ids_are_compared_as_everywhere():
    rules = parse_rules('[lists]\nbad = [7, "8"]\n[[rule]]\nname = "a"\nall = ["src in bad"]', FIELDS, "s")
    keys = [id_key(id) for id in ("7", 7.0, 8, "007")]
    assert [bool(x) for x in RuleState(rules).judge(keys, keys, [0] * 4, {}, [0.0] * 4)] == [True, True, True, False]


def test_a_table_has_fields_too(tmp_path):
    with LiveModel.open(tmp_path / "live", classifier(), threshold=2.0) as live:
        live.act({"do": "rules", "text": TEXT})
        found = live.submit_table(EDGES[N_FITTED:].with_label(None), ids=[f"p{k}" for k in range(N_FITTED, N)])
    assert [scoreless(one.rules) for one in found] == [scoreless(one) for one in expected_live(range(N_FITTED, N))]


# ---- back-tests


def test_a_backtest_is_as_a_plain_loop():
    edges = EDGES.with_label(EDGES.label, LABEL_TIME)
    table = backtest_rules(edges, "30d", TEXT, alerts_per_day=1, random_state=0)
    assert table["rule"].to_list() == [
        "often",
        "much in a day",
        "new and watched",
        "pair, not by the model",
        "any",
        "model",
    ]
    ticks = EDGES.time.astype("datetime64[s]").astype(np.int64)
    rows = [(EDGES.src[k], EDGES.dst[k], int(ticks[k]), float(EDGES.features[k, 0]), 1.0) for k in range(N)]
    fired = plain_loop(rows)
    test = np.concatenate([period.test for period in Periods(edges, "30d").periods])
    days = ticks[test] // DAY
    for name in ("often", "much in a day", "new and watched"):
        mine = [k for k in test.tolist() if name in fired[k]]
        (found,) = table.filter(table["rule"] == name).to_dicts()
        assert found["alerts"] == len(mine) > 0
        assert found["alerts_per_day"] == pytest.approx(len(mine) / len(set(days.tolist())))
        assert found["precision"] == pytest.approx(EDGES.label[mine].mean())
        assert found["recall"] == pytest.approx(EDGES.label[mine].sum() / EDGES.label[test].sum())
        assert 0 <= found["overlap"] <= 1
    (model,) = table.filter(table["rule"] == "model").to_dicts()
    assert model["alerts"] == len(set(days.tolist()))
    (total,) = (
        backtest(edges, "30d", alerts_per_day=1).filter(pl.col("start").is_null(), method="propagation").to_dicts()
    )
    assert model["precision"] == pytest.approx(total["alert_precision"])
    assert model["overlap"] == 1
    (any_rule,) = table.filter(table["rule"] == "any").to_dicts()
    assert max(table["alerts"][:4]) <= any_rule["alerts"] <= sum(table["alerts"][:4])
    assert model["only_here"] + any_rule["only_here"] > 0


def test_the_command_backtests_rules(tmp_path):
    frame = pl.DataFrame(
        {"src": EDGES.src, "dst": EDGES.dst, "time": EDGES.time.astype(str), "amount": EDGES.features[:, 0]}
    )
    frame.with_columns(fraud=EDGES.label, known=LABEL_TIME.astype(str)).write_csv(tmp_path / "pay.csv")
    (tmp_path / "rules.toml").write_text(TEXT)
    arguments = [
        "backtest",
        "pay.csv",
        "--label",
        "fraud",
        "--label-time",
        "known",
        "--every",
        "60d",
        "--rules",
        "rules.toml",
    ]
    arguments = [str(tmp_path / one) if one.endswith((".csv", ".toml")) else one for one in arguments]
    result = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "found.csv")])
    assert result.exit_code == 0, result.output
    assert pl.read_csv(tmp_path / "found.csv")["rule"].to_list()[-2:] == ["any", "model"]
    (tmp_path / "rules.toml").write_text(TEXT.replace("sum(amount", "sum(amuont"))
    result = CliRunner().invoke(app, arguments)
    assert "rules.toml, line 12: 'sum(amuont, dst, 1d) > 150': the events have no field 'amuont'" in result.stderr
    assert "cannot be used with --curve" in CliRunner().invoke(app, [*arguments, "--curve"]).stderr


def test_a_line_of_tdlg_stream_names_the_rules():
    assert '"alert":true' in answer_line(Answer("a", 0.1, alert=True, rules=("large",)))
    assert answer_line(Answer("a", 0.1, alert=True, rules=("large",))).endswith('"rules":["large"]}')
    assert "rules" not in answer_line(Answer("a", 0.1))
