"""Rules beside the model: a text file of named conditions, with exact counts and sums of the events in a window of time.

One definition for tables and streams: `RuleState.judge` is fed with events in the order in which they came.
"""

from __future__ import annotations

import difflib
import json
import operator
import re
import tomllib
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from tdlg.clock import as_seconds, ticks_per_second
from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError, TdlgError
from tdlg.judge.backtest import prepared
from tdlg.models.propagation import PropagationClassifier
from tdlg.sampling.index import feature_values
from tdlg.tables.ids import id_key

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Fired", "Rule", "RuleState", "RuleWindow", "Rules", "backtest_rules", "parse_rules"]

MOST_RULES, MOST_TEXT, MOST_NAME = 100, 100_000, 80
MOST_HELD = 1_000_000  # events that are kept for the windows of sources, of destinations, and of pairs
LEFT = 0.9  # share of them that stays if there are more
LOOK_EVERY = 100_000  # further events after which windows that are over are forgotten
UNITS = 10**9  # sums are whole numbers of a billionth: exact for money, in any order
ENDS = ("src", "dst", "pair")
OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq}
HEADER = re.compile(r"\s*\[\[\s*rule\s*\]\]")
COMPARED = re.compile(r"(.+?)\s*(<=|>=|<|>|==|=)\s*([^<>=]+)")
COUNTED = re.compile(r"count\s*\(\s*(\w+)\s*,\s*([^,()]+?)\s*\)")
SUMMED = re.compile(r"sum\s*\(\s*(.+?)\s*,\s*(\w+)\s*,\s*([^,()]+?)\s*\)")
FIRST = re.compile(r"first\s+contact\s*\(\s*([^,()]+?)\s*\)")
LISTED = re.compile(r"(src|dst|node)\s+(not\s+)?in\s+(\S+)")
FORMS = (
    "A condition is one of: amount > 500 (a field), score >= 0.3, count(src, 1h) >= 10, sum(amount, dst, 1d) > 5000, "
    "first contact (90d), src in NAME, node not in NAME."
)

Arrays = dict[str, NDArray[Any]]


class Condition(NamedTuple):
    """One condition: a comparison of a quantity with a number, or a node that is in a list or not."""

    text: str
    kind: str  # score, field, count, sum or list
    end: str = ""  # src, dst or pair; of a list: src, dst or node
    field: str = ""
    width: Any = 0  # of the window, in ticks
    compare: str = ">"
    number: float = 0.0
    nodes: frozenset[Any] = frozenset()


class Rule(NamedTuple):
    """A name, and conditions that must all hold."""

    name: str
    conditions: tuple[Condition, ...]


class Fired(NamedTuple):
    """A rule that holds for an event, and why in words."""

    name: str
    why: str


@dataclass(frozen=True)
class Rules:
    """The rules of a text, in ticks of a clock with this unit."""

    text: str = ""
    rules: tuple[Rule, ...] = ()
    unit: str | None = None

    def __bool__(self) -> bool:
        return bool(self.rules)

    @property
    def fields(self) -> list[str]:
        """The fields that some condition is about."""
        return sorted({one.field for rule in self.rules for one in rule.conditions if one.field})

    def windows(self) -> dict[str, RuleWindow]:
        """What is to be kept of events, by end: the longest window, and the fields that are summed."""
        found: dict[str, RuleWindow] = {}
        for end in ENDS:
            used = [one for rule in self.rules for one in rule.conditions if one.end == end and one.width]
            if used:
                summed = sorted({one.field for one in used if one.kind == "sum"})
                found[end] = RuleWindow(max(one.width for one in used), summed, self.unit)
        return found


# ---- reading


def parse_rules(text: str, fields: Mapping[str, bool] | None, unit: str | None, file: str = "the rules") -> Rules:
    """Read rules, and refuse what is wrong with the number of its line.

    fields : of the events, with whether each is a number; None: any. unit : of the clock, None if times are numbers.
    """
    if len(text) > MOST_TEXT:
        raise ParameterError(f"{file}: rules have at most {MOST_TEXT:,} characters.", parameter="rules")
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ParameterError(f"{file}: this is not TOML: {error}.", parameter="rules") from None
    return _Parser(text, fields, unit, file).rules(content)


class _Parser:
    def __init__(self, text: str, fields: Mapping[str, bool] | None, unit: str | None, file: str) -> None:
        self._text, self._lines, self._fields, self._unit, self._file = text, text.splitlines(), fields, unit, file
        self._headers = [k for k, line in enumerate(self._lines) if HEADER.match(line)] + [len(self._lines)]
        self._first, self._last = 0, len(self._lines)  # lines of the rule that is read

    def rules(self, content: dict[str, Any]) -> Rules:
        self._check_keys(content, ("rule", "lists"), "The file has [[rule]] tables and one table [lists]")
        lists, given = content.get("lists", {}), content.get("rule", [])
        if not isinstance(lists, dict) or not isinstance(given, list) or not all(isinstance(x, dict) for x in given):
            self._refuse("[[rule]]", "Rules are tables that begin with [[rule]], lists one table [lists].")
        for name, nodes in lists.items():
            if not isinstance(nodes, list) or any(type(x) not in (str, int, float) for x in nodes):
                self._refuse(name, f"The list {name!r} must have nodes, text or numbers, in brackets.")
        self._lists = {name: frozenset(map(id_key, nodes)) for name, nodes in lists.items()}
        if len(given) > MOST_RULES:
            self._refuse("[[rule]]", f"There are {len(given)} rules, more than {MOST_RULES}.")
        rules: list[Rule] = []
        for k, one in enumerate(given):
            if len(self._headers) == len(given) + 1:
                self._first, self._last = self._headers[k], self._headers[k + 1]
            rules.append(self._rule(one, {rule.name for rule in rules}))
        return Rules(self._text, tuple(rules), self._unit)

    def _rule(self, given: dict[str, Any], taken: set[str]) -> Rule:
        self._check_keys(given, ("name", "all"), "A rule has a name, and a list 'all' of conditions")
        name, conditions = given.get("name"), given.get("all")
        if not isinstance(name, str) or not name.strip() or len(name) > MOST_NAME:
            self._refuse("name", f"A rule needs a name of at most {MOST_NAME} characters.")
        if name in taken:
            self._refuse("name", f"There are two rules with the name {name!r}.")
        if not isinstance(conditions, list) or not conditions or not all(isinstance(x, str) for x in conditions):
            self._refuse("all", f'Rule {name!r} needs conditions, such as all = ["amount > 500", "score >= 0.3"].')
        return Rule(name, tuple(self._condition(text) for text in conditions))

    def _condition(self, text: str) -> Condition:
        asked = text.strip()
        if found := LISTED.fullmatch(asked):
            end, negated, name = found.groups()
            if name not in self._lists:
                self._refuse(text, f"{asked!r}: there is no list {name!r} in [lists]{self._close(name, self._lists)}.")
            return Condition(asked, "list", end, compare="not in" if negated else "in", nodes=self._lists[name])
        if found := FIRST.fullmatch(asked):
            return Condition(asked, "count", "pair", "", self._width(text, found[1]), "<=", 1)
        found = COMPARED.fullmatch(asked)
        if found is None:
            way = " Say in how much time, as first contact (90d)." if asked.startswith("first contact") else ""
            self._refuse(text, f"{asked!r} is not a condition.{way} {FORMS}")
        what, compare, written = found.groups()
        number = self._number(text, written)
        compared: Any = ("==" if compare == "=" else compare, number)
        if what == "score":
            return Condition(asked, "score", "", "", 0, *compared)
        if counted := COUNTED.fullmatch(what):
            return Condition(asked, "count", self._end(text, counted[1]), "", self._width(text, counted[2]), *compared)
        if summed := SUMMED.fullmatch(what):
            name = self._field(text, summed[1])
            return Condition(asked, "sum", self._end(text, summed[2]), name, self._width(text, summed[3]), *compared)
        if "(" in what and (self._fields is None or what not in self._fields):
            self._refuse(text, f"{asked!r} is not a condition. {FORMS}")
        return Condition(asked, "field", "", self._field(text, what), 0, *compared)

    def _field(self, text: str, name: str) -> str:
        if self._fields is not None and not self._fields.get(name):
            numbers = [known for known, is_number in self._fields.items() if is_number]
            if name in self._fields:
                problem = f"the field {name!r} has words, and is not compared with numbers"
            else:
                problem = f"the events have no field {name!r}{self._close(name, numbers)}"
            has = f"Fields that are numbers: {', '.join(numbers) or 'none'}."
            self._refuse(text, f"{text.strip()!r}: {problem}. {has}")
        return name

    def _end(self, text: str, end: str) -> str:
        if end not in ENDS:
            self._refuse(text, f"{text.strip()!r}: events are those of the same src, dst or pair, not {end!r}.")
        return end

    def _number(self, text: str, written: str) -> float:
        try:
            number = float(written)
        except ValueError:
            number = np.nan
        if not np.isfinite(number):
            self._refuse(text, f"{text.strip()!r}: {written!r} is not a number.")
        return number

    def _width(self, text: str, written: str) -> Any:
        """A window in ticks."""
        try:
            if self._unit is not None:
                width: Any = round(as_seconds(written) * ticks_per_second(self._unit))
            else:
                width = float(written)
            if width > 0 and np.isfinite(width):
                return width
        except (TdlgError, ValueError):
            pass
        form = "a duration such as 90min, 12h or 30d" if self._unit is not None else "a number above 0, like the times"
        self._refuse(text, f"{text.strip()!r}: the time must be {form}. Got {written!r}.")

    def _check_keys(self, given: Mapping[str, Any], known: Collection[str], form: str) -> None:
        for name in given:
            if name not in known:
                self._refuse(name, f"{form}. Got {name!r} instead{self._close(name, known)}.")

    @staticmethod
    def _close(name: str, known: Iterable[str]) -> str:
        found = difflib.get_close_matches(name, list(known), 1)
        return f": did you mean {found[0]!r}?" if found else ""

    def _refuse(self, word: str, problem: str) -> NoReturn:
        """Raise an error with the number of the line of the rule that has this word, or of its first line."""
        lines = range(self._first, self._last)
        at = next((k for k in lines if word in self._lines[k]), self._first)
        problem = problem.replace("?.", "?")
        raise ParameterError(f"{self._file}, line {at + 1}: {problem}", parameter="rules")


# ---- exact counts and sums


class _Events:
    """The events of one key: times in ascending order, and running sums of each field."""

    __slots__ = ("before", "ticks", "totals")

    def __init__(self, code: str, n_fields: int) -> None:
        self.ticks = array(code)
        self.totals: list[list[int]] = [[] for _ in range(n_fields)]
        self.before = [0] * n_fields  # sums of those that were dropped

    def add(self, tick: Any, amounts: Sequence[int]) -> None:
        ticks = self.ticks
        at = len(ticks) if not ticks or tick >= ticks[-1] else bisect_right(ticks, tick)
        ticks.insert(at, tick)
        for totals, before, amount in zip(self.totals, self.before, amounts, strict=True):
            totals.insert(at, (totals[at - 1] if at else before) + amount)
            for later in range(at + 1, len(totals)):
                totals[later] += amount

    def remove(self, tick: Any, amounts: Sequence[int]) -> bool:
        """Take one back; whether it was there."""
        at = bisect_right(self.ticks, tick) - 1
        while at >= 0 and self.ticks[at] == tick and self.amounts(at) != list(amounts):
            at -= 1
        if at < 0 or self.ticks[at] != tick:
            return False
        del self.ticks[at]
        for totals, amount in zip(self.totals, amounts, strict=True):
            del totals[at]
            for later in range(at, len(totals)):
                totals[later] -= amount
        return True

    def amounts(self, at: int) -> list[int]:
        pairs = zip(self.totals, self.before, strict=True)
        return [totals[at] - (totals[at - 1] if at else before) for totals, before in pairs]

    def drop(self, until: Any) -> int:
        """Forget events up to a time; how many."""
        n = bisect_right(self.ticks, until)
        if n:
            self.before = [totals[n - 1] for totals in self.totals]
            del self.ticks[:n]
            for totals in self.totals:
                del totals[:n]
        return n


class RuleWindow:
    """The events of the longest window of a kind of key, from which all shorter windows are counted.

    complete_since : the ticks after which no event is missing.
    """

    def __init__(self, width: Any, fields: list[str], unit: str | None) -> None:
        self.width, self.fields, self._code = width, fields, "d" if unit is None else "q"
        self._of: dict[Any, _Events] = {}
        self.n = self._n_at_last_look = 0
        self.complete_since: float = -np.inf

    def add(self, key: Any, tick: Any, amounts: Sequence[int], clock: Any) -> None:
        """Add an event, unless it is before the window."""
        if tick <= clock - self.width:
            return
        events = self._of.get(key)
        if events is None:
            events = self._of[key] = _Events(self._code, len(self.fields))
        elif len(events.ticks) > 1 and events.ticks[len(events.ticks) // 2] <= clock - self.width:
            self.n -= events.drop(clock - self.width)
        events.add(tick, amounts)
        self.n += 1
        if self.n > 2 * self._n_at_last_look + LOOK_EVERY or self.n > MOST_HELD:
            self._forget(clock - self.width)

    def remove(self, key: Any, tick: Any, amounts: Sequence[int]) -> None:
        """Take an event back, if it is kept."""
        events = self._of.get(key)
        self.n -= events is not None and events.remove(tick, amounts)

    def value(self, key: Any, width: Any, field: str, clock: Any) -> float:
        """The number of events of a key in the window that ends now, or the sum of a field over them."""
        events = self._of.get(key)
        if events is None:
            return 0
        first = bisect_right(events.ticks, clock - width)
        if not field:
            return len(events.ticks) - first
        totals, before = events.totals[self.fields.index(field)], events.before[self.fields.index(field)]
        if first == len(totals):
            return 0.0
        return (totals[-1] - (totals[first - 1] if first else before)) / UNITS

    def entries(self) -> Iterator[tuple[Any, Any, list[int]]]:
        """Key, time and amounts of all events that are kept."""
        for key, events in self._of.items():
            for at, tick in enumerate(events.ticks):
                yield key, tick, events.amounts(at)

    def _forget(self, until: Any) -> None:
        """Forget what is over, and the oldest if there is still too much."""
        self._drop(until)
        if self.n > LEFT * MOST_HELD:
            ticks = np.concatenate([np.asarray(events.ticks) for events in self._of.values()])
            n_over = self.n - int(LEFT * MOST_HELD)
            self.complete_since = float(np.partition(ticks, n_over - 1)[n_over - 1])
            self._drop(np.partition(ticks, n_over - 1)[n_over - 1].item())
        self._n_at_last_look = self.n

    def _drop(self, until: Any) -> None:
        for key in list(self._of):
            self.n -= self._of[key].drop(until)
            if not self._of[key].ticks:
                del self._of[key]

    def saved(self) -> dict[str, Any]:
        """All that `restore` needs, as JSON holds it."""
        held = [[key, list(of.ticks), [of.amounts(k) for k in range(len(of.ticks))]] for key, of in self._of.items()]
        since = None if self.complete_since == -np.inf else self.complete_since
        return {"held": held, "looked_at": self._n_at_last_look, "complete_since": since}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Be as `saved` says."""
        for key, ticks, amounts in saved["held"]:
            events = self._of[tuple(key) if isinstance(key, list) else key] = _Events(self._code, len(self.fields))
            for tick, one in zip(ticks, amounts, strict=True):
                events.add(tick, one)
            self.n += len(ticks)
        since = saved["complete_since"]
        self._n_at_last_look, self.complete_since = saved["looked_at"], -np.inf if since is None else since


# ---- rules and what they have seen


@dataclass
class RuleState:
    """Rules, and the events that their counts and sums are made of.

    A window ends at the latest time seen: it has the event itself, those before it, and of those at the same time the ones
    that came before. An event that comes late is judged as of now, as its score is, and counts for later ones by its time.
    """

    rules: Rules = field(default_factory=Rules)
    clock: Any = -np.inf
    windows: dict[str, RuleWindow] = field(init=False)

    def __post_init__(self) -> None:
        self.windows = self.rules.windows()

    def judge(
        self,
        src: Sequence[Any],
        dst: Sequence[Any],
        ticks: Sequence[Any],
        fields: Mapping[str, Sequence[Any]],
        scores: Sequence[float],
    ) -> list[tuple[Fired, ...]]:
        """The rules that hold for events, which are taken in the order of time. src, dst : keys of ids."""
        found: list[tuple[Fired, ...]] = [()] * len(ticks)
        for k in sorted(range(len(ticks)), key=ticks.__getitem__):
            keys = {"src": src[k], "dst": dst[k], "pair": (src[k], dst[k])}
            values = {name: _number(column[k]) for name, column in fields.items()}
            self.learn(keys, ticks[k], values)
            found[k] = tuple(
                Fired(rule.name, self._words(rule, keys, values, scores[k]))
                for rule in self.rules.rules
                if all(self._holds(one, keys, values, scores[k]) for one in rule.conditions)
            )
        return found

    def learn(self, keys: Mapping[str, Any], tick: Any, values: Mapping[str, float]) -> None:
        """Count an event."""
        self.clock = max(self.clock, tick)
        for end, window in self.windows.items():
            window.add(keys[end], tick, _amounts(window.fields, values), self.clock)

    def withdraw(self, src: Any, dst: Any, tick: Any, values: Mapping[str, Any]) -> None:
        """Take an event back."""
        numbers = {name: _number(value) for name, value in values.items()}
        for end, window in self.windows.items():
            key = {"src": src, "dst": dst, "pair": (src, dst)}[end]
            window.remove(key, tick, _amounts(window.fields, numbers))

    def _value(self, one: Condition, keys: Mapping[str, Any], values: Mapping[str, float], score: float) -> float:
        if one.kind == "score":
            return score
        if one.kind == "field":
            return values[one.field]
        return self.windows[one.end].value(keys[one.end], one.width, one.field, self.clock)

    def _holds(self, one: Condition, keys: Mapping[str, Any], values: Mapping[str, float], score: float) -> bool:
        if one.kind == "list":
            ends = ("src", "dst") if one.end == "node" else (one.end,)
            return any(keys[end] in one.nodes for end in ends) == (one.compare == "in")
        return bool(OPERATORS[one.compare](self._value(one, keys, values, score), one.number))

    def _words(self, rule: Rule, keys: Mapping[str, Any], values: Mapping[str, float], score: float) -> str:
        parts = []
        for one in rule.conditions:
            is_first = one.text.startswith("first")
            what = one.text if one.kind == "list" or is_first else COMPARED.fullmatch(one.text)[1]  # type: ignore[index]
            said = one.kind == "list" or is_first
            parts.append(what if said else f"{what} = {self._value(one, keys, values, score):.6g}")
        return ", ".join(parts)

    # ---- another text

    def followed_by(
        self, rules: Rules, clock: Any, history: Iterable[tuple[Any, Any, Any, Any]], since: float
    ) -> RuleState:
        """The state of other rules: events of windows that this one covers stay, others are made from a history.

        history : source, destination, time and fields of events. since : the ticks after which no event is missing there.
        """
        state = RuleState(rules, clock)
        missing = {}
        for end, window in state.windows.items():
            known = self.windows.get(end)
            if known is None or known.width < window.width or not set(window.fields) <= set(known.fields):
                window.complete_since, missing[end] = since, window
                continue
            at = [known.fields.index(name) for name in window.fields]
            window.complete_since = known.complete_since
            for key, tick, amounts in known.entries():
                window.add(key, tick, [amounts[k] for k in at], clock)
        for src, dst, tick, values in history if missing else ():
            for end, window in missing.items():
                numbers = {name: _number(values[name]) for name in window.fields}
                key = {"src": src, "dst": dst, "pair": (src, dst)}[end]
                window.add(key, tick, _amounts(window.fields, numbers), clock)
        return state

    @property
    def incomplete_since(self) -> float | None:
        """The ticks since when counts are complete, if that is less than the longest window; None if all are."""
        late = [w.complete_since for w in self.windows.values() if w.complete_since > self.clock - w.width]
        return max(late, default=None)

    def arrays(self) -> Arrays:
        """All that `restored` needs."""
        clock = None if self.clock == -np.inf else self.clock
        windows = {end: window.saved() for end, window in self.windows.items()}
        content = {"text": self.rules.text, "clock": clock, "windows": windows}
        return {"content": np.frombuffer(json.dumps(content).encode(), np.uint8)}

    @classmethod
    def restored(cls, arrays: Mapping[str, Any], unit: str | None) -> RuleState:
        """The state with these arrays; snapshots of earlier versions have none."""
        if "content" not in arrays:
            return cls()
        content = json.loads(arrays["content"].tobytes())
        clock = -np.inf if content["clock"] is None else content["clock"]
        state = cls(parse_rules(content["text"], None, unit), clock)
        for end, saved in content["windows"].items():
            state.windows[end].restore(saved)
        return state


def _number(value: Any) -> float:
    return np.nan if value is None else float(value)


def _amounts(fields: Sequence[str], values: Mapping[str, float]) -> list[int]:
    """Amounts in units; a missing one is 0."""
    return [round(x * UNITS) if (x := values[name]) == x else 0 for name in fields]


def fitted_history(edges: TemporalEdges, ticks: NDArray[Any], fields: Sequence[str], after: float) -> list[Any]:
    """Source, destination, time and fields of the edges after a time, in the order of time; for `followed_by`."""
    rows = np.flatnonzero(ticks > after)
    rows = rows[np.argsort(ticks[rows], kind="stable")]
    part = edges[rows]
    columns = {
        name: part.weight.tolist()
        if name == "weight" and part.weight is not None
        else feature_values(part, name).tolist()
        for name in fields
    }
    ends = zip(map(id_key, part.src.tolist()), map(id_key, part.dst.tolist()), ticks[rows].tolist(), strict=True)
    return [(*one, {name: column[k] for name, column in columns.items()}) for k, one in enumerate(ends)]


def without_repeats(events: Iterable[Any], fitted: Iterable[Any]) -> Iterator[Any]:
    """The events of a history that are not among the fitted ones, by source, destination and time."""
    known = Counter(one[:3] for one in fitted)
    for one in events:
        if known[one[:3]]:
            known[one[:3]] -= 1
        else:
            yield one


# ---- back-tests


def backtest_rules(
    edges: TemporalEdges,
    every: Any,
    text: str,
    *,
    file: str = "the rules",
    start: Any = None,
    alerts_per_day: int = 20,
    positive: Any = None,
    random_state: Any = 0,
    callback: Callable[[int, int], object] = lambda done, total: None,
) -> pl.DataFrame:
    """Go through time as `tdlg.judge.backtest.backtest` does, and compare rules with the model.

    Parameters
    ----------
    edges, every, start, alerts_per_day, positive, random_state
        As for `backtest`. Rules count all edges; they are judged on the labelled edges of the periods, as the model is, and
        a score is that of the model (`PropagationClassifier`) of the period.
    text
        The rules, as TOML.
    file
        The name of the file, for messages.
    callback
        A function that is called with (done, total) after each period.

    Returns
    -------
    polars.DataFrame
        One row per rule, then "any" of them, and the "model" with the `alerts_per_day` highest scores of each day. Columns:
        rule, alerts, alerts_per_day, positives (of the alerts), precision, recall, overlap (share of the alerts that are
        alerts of the model too) and only_here: positives that the model does not find, for the model: that no rule finds.
    """
    import polars as pl

    names = [*edges.feature_names, *(["weight"] if edges.weight is not None else [])]
    rules = parse_rules(text, {name: name not in edges.feature_categories for name in names}, edges.time_unit, file)
    models = {"model": PropagationClassifier(random_state=random_state)}
    task, judge = prepared("backtest_rules", edges, every, models, start, alerts_per_day, positive, random_state)
    edges, is_positive, scores = task.edges, judge.is_positive, np.full(len(edges), np.nan)
    for done, period in enumerate(task.periods, start=1):
        (scores[period.test],) = judge.scores(period.trial)
        callback(done, task.n_trials)
    history = fitted_history(edges, edges.ticks, rules.fields, -np.inf)
    order = np.argsort(edges.ticks, kind="stable")
    src, dst, ticks, values = zip(*history, strict=True)
    columns = {name: [one[name] for one in values] for name in rules.fields}
    fired = RuleState(rules).judge(src, dst, ticks, columns, scores[order].tolist())
    of_rule = {rule.name: np.zeros(len(edges), bool) for rule in rules.rules}
    for row, found in zip(order.tolist(), fired, strict=True):
        for one in found:
            of_rule[one.name][row] = True
    test = np.concatenate([period.test for period in task.periods])
    day, of_model = np.floor_divide(edges.ticks[test], task.day), np.zeros(len(edges), bool)
    for part in np.split(test[np.argsort(day, kind="stable")], np.flatnonzero(np.diff(np.sort(day))) + 1):
        of_model[part[np.argsort(-scores[part], kind="stable")[:alerts_per_day]]] = True
    of_any = np.logical_or.reduce([np.zeros(len(edges), bool), *of_rule.values()])
    rows = []
    for name, alerts in (*of_rule.items(), ("any", of_any), ("model", of_model)):
        mine, other = alerts[test], (of_any if name == "model" else of_model)[test]
        hits, n = int((mine & is_positive[test]).sum()), int(mine.sum())
        rows.append(
            {
                "rule": name,
                "alerts": n,
                "alerts_per_day": n / len(np.unique(day)),
                "positives": hits,
                "precision": hits / n if n else None,
                "recall": hits / int(is_positive[test].sum()) if is_positive[test].any() else None,
                "overlap": float((mine & of_model[test]).sum() / n) if n else None,
                "only_here": int((mine & is_positive[test] & ~other).sum()),
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)
