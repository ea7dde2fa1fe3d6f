"""Columns of a table: their roles, chosen by name or position or detected by usual names, and which of them are features."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tdlg.exceptions import EdgesError, ReadError, warn
from tdlg.tables.column import as_column, nulls
from tdlg.tables.features import as_features
from tdlg.tables.labels import as_labels, known
from tdlg.tables.times import as_times

if TYPE_CHECKING:
    pass

Which: TypeAlias = "str | int | None"
Several: TypeAlias = "Which | Iterable[str | int] | NDArray[Any]"
ALL, NONE = "all", "none"  # as features: every column that can be one, or no columns

# Names are compared in lower case, without punctuation between words and, for src and dst, without "id", "no" and so on at
# the end, unless the table has the name itself.
USUAL_NAMES = {
    "src": "src source from from_node from_address u user sender payer rater reviewer follower buyer customer head node1 i",
    "dst": "dst dest destination target tgt to to_node to_address v item receiver recipient payee ratee reviewee followee "
    "seller product tail node2 j",
    "time": "time timestamp ts t date datetime unix_time epoch created created_at",
}
LESS_USUAL_NAMES = {  # tried if none of the names above is found
    "src": "client account acct from_account account_from source_account sender_account debtor originator orig name_orig "
    "card cardholder cc_num caller author employee host src_ip source_ip ip_src",
    "dst": "merchant shop store terminal beneficiary creditor vendor supplier counterparty to_account account_to "
    "target_account receiver_account dest_account name_dest callee movie song track business page device dst_ip dest_ip "
    "destination_ip ip_dst",
    "time": "day when booked booked_at booking_date booking_time transaction_date transaction_time transaction_datetime "
    "tx_date tx_time tx_datetime trans_date trans_time trans_date_trans_time event_time event_date event_timestamp "
    "timestamp_s timestamp_ms unix_timestamp occurred_at occurred paid_at posted_at sent_at rated_at received_at "
    "creation_date creation_time created_on value_date utc_time start_time login_time",
}
LAST_NAMES = {"src": "ip ip_address client_ip", "dst": "ip ip_address server server_ip url domain", "time": ""}
ENDINGS = ("", "id"), ("no", "nr", "num", "number", "code", "key"), ("name",)


@dataclass(frozen=True)
class Source:
    """A table whose columns are read on demand.

    `read` takes the positions to read and, for files without types, the positions whose types must agree and those to keep
    as text. `comments` are lines above the table that may contain the column names; `separator` is that of a csv file;
    `prepare` is told which columns will be read, so that the file is parsed once.
    """

    origin: str
    names: list[str]
    has_names: bool
    first_row: list[str]
    read: Callable[[list[int], set[int], set[int]], dict[int, Any]]
    comments: list[list[str]] = field(default_factory=list)
    separator: str = ""
    prepare: Callable[[list[int]], None] = lambda positions: None


def agreed(columns: dict[int, Any], alike: set[int], as_text: Callable[[int], Any]) -> dict[int, Any]:
    """Read the columns that must agree as text if their types differ, so that 2 and "2" stay the same id."""
    kinds = {"number" if columns[k].dtype.is_numeric() else str(columns[k].dtype) for k in alike}
    return {**columns, **{k: as_text(k) for k in alike}} if len(kinds) > 1 else columns


def named_by_comment(source: Source, wanted: list[Any]) -> Source:
    """The table with the names from the last comment that contains all requested columns, or else src and dst."""
    requested = {which for which in wanted if isinstance(which, str) and not which.isdecimal()}
    for names in [] if source.has_names else reversed(source.comments):
        if requested <= set(names) if requested else usual_at(names, "src") and usual_at(names, "dst"):
            return replace(source, names=names, has_names=True)
    return source


def roles(source: Source, wanted: dict[str, Which]) -> dict[str, int]:
    """Position of each requested column, and of src, dst and time by their usual names or positions."""
    at = {role: position_of(source, role, which) for role, which in wanted.items() if which is not None}
    if source.has_names:
        at = _by_usual_names(source, at)
    elif len(source.names) == 3 or "time" in at:
        at = {"src": 0, "dst": 1, "time": 2, **at}
    else:
        last = len(source.names) - 1
        hint = f"Pass src=0, dst=1 and time={last!r}, or other positions."
        _fail(source, f"There are {last + 1} columns and no names. {_present(source)}", hint)
    _check_distinct(source, {role: at[role] for role in ("src", "dst", "time")})
    if "label_time" in at:
        others = {
            role: position for role, position in at.items() if position == at["label_time"] and role != "label_time"
        }
        _check_distinct(source, {**others, "label_time": at["label_time"]})
    return {role: at[role] for role in wanted if role in at}


def position_of(source: Source, role: str, which: Any) -> int:
    """Position of the column that the caller chose by name or position."""
    n_columns = len(source.names)
    if isinstance(which, str) and source.has_names:
        named = [k for k, name in enumerate(source.names) if name == which]
        named = named or [k for k, name in enumerate(source.names) if f"{name} (column {k})" == which]
        if len(named) > 1:
            problem = f"The name {which!r} for '{role}' stands for the columns {named}."
            _fail(source, problem, f"Pass a position, such as {role}={named[0]!r}.")
        if named:
            return named[0]
    if isinstance(which, str) and which.isdecimal():  # as the shell writes positions
        which = int(which)
    if isinstance(which, str) and source.has_names:
        close = difflib.get_close_matches(which, source.names, 1, 0.6)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        _fail(source, f"No column {which!r} for '{role}'.{hint} {_present(source)}", parameter=role)
    if isinstance(which, int | np.integer) and not isinstance(which, bool) and 0 <= which < n_columns:
        return int(which)
    problem = f"The '{role}' must be a name or a position from 0 to {n_columns - 1}. Got {which!r} instead."
    _fail(source, f"{problem} {_present(source)}", parameter=role)


def listed(which: Several) -> list[Any]:
    """Columns as a list; one column, or none, too."""
    if which is None:
        return []
    if isinstance(which, np.ndarray):
        which = which.tolist()
    return list(which) if isinstance(which, Iterable) and not isinstance(which, str) else [which]


def listed_features(source: Source, features: Several, categories: Several) -> tuple[list[int] | None, list[int]]:
    """Positions of the columns of features, None where they are chosen, and of categories.

    Text may hold several names, separated by commas, or be the word "all" or "none".
    """
    chosen: list[int] | None = None
    if isinstance(features, str) and features in (ALL, NONE):
        if source.has_names and features in source.names:
            problem = f"{features!r} is also the name of a column."
            hint = f"Name all columns to use, as with features='{features},amount'."
            _fail(source, problem, hint, parameter="features")
        chosen = None if features == ALL else []
    elif features is not None:
        chosen = [position_of(source, "features", which) for which in split(source, features)]
    return chosen, [position_of(source, "categories", which) for which in split(source, categories)]


def split(source: Source, which: Several) -> list[Any]:
    """Columns as a list, from text with commas too."""
    if not isinstance(which, str) or which in source.names:
        return listed(which)
    return [name.strip() for name in which.split(",") if name.strip()]


def usual_at(names: list[str], role: str) -> list[int]:
    """Positions of the names that are usual for `src`, `dst` or `time`, in any spelling."""
    plain = [_plain(name) for name in names]
    for endings, spelled in [*product(ENDINGS, (USUAL_NAMES, LESS_USUAL_NAMES)), (ENDINGS[0], LAST_NAMES)]:
        usual = {_plain(name) for name in spelled[role].split()}
        for ending in endings if role != "time" else [""]:
            stems = [name.removesuffix(ending) if name.endswith(ending) else "" for name in plain]
            found = [k for k, stem in enumerate(stems) if stem in usual and (not ending or len(stem) > 1)]
            if found:
                return found
    return []


def _plain(name: str) -> str:
    """The name in lower case, without punctuation."""
    return re.sub(r"[\W_]+", "", name.lower())


def _by_usual_names(source: Source, at: dict[str, int]) -> dict[str, int]:
    """Add the positions of src, dst and time that the caller did not choose; one error reports all that are missing."""
    at, unnamed = dict(at), []
    problems: list[str] = []
    hints: list[str] = []
    for role in ("src", "dst", "time"):
        if role in at:
            continue
        usual = usual_at(source.names, role)
        found = [k for k in usual if k not in at.values()]
        found = [k for k in found if source.names[k] == role] or found  # the name itself is preferred to others
        if len(found) == 1:
            at[role] = found[0]
        elif found:
            names = [source.names[k] for k in found]
            first = found[0] if names.count(names[0]) > 1 else names[0]
            problems.append(f"More than one column may be '{role}': {names}.")
            hints.append(f"Pass {role}={first!r}, or another.")
        elif usual:
            other = next(other for other, k in at.items() if k == usual[0])
            problems.append(f"The column {source.names[usual[0]]!r} is '{other}', and no other is '{role}'.")
            hints.append(f"Pass {role}= with a name.")
        else:
            unnamed.append(role)
    if unnamed:
        problems.append(f"No column has a usual name for {_and([repr(role) for role in unnamed])}.")
        names_given = "a name" if len(unnamed) == 1 else "names"
        hints.append(f"Pass {_and([f'{role}=' for role in unnamed])} with {names_given}.")
    if problems:
        _fail(source, " ".join([*problems, _present(source)]), *hints)
    return at


def _and(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _present(source: Source) -> str:
    if source.has_names:
        return f"The columns are {source.names}."
    return f"The first row, by position, is {dict(enumerate(source.first_row))}."


def _check_distinct(source: Source, at: dict[str, int]) -> None:
    for role, position in at.items():
        twin = next(other for other in at if at[other] == position)
        if twin != role:
            column = source.names[position]
            problem = f"The column {column!r} is both '{twin}' and '{role}'. {_present(source)}"
            _fail(source, problem, f"Pass another {role}=.")


def _fail(source: Source, problem: str, *hints: str, parameter: str | None = None) -> NoReturn:
    raise ReadError(f"{source.origin}: {problem}", *hints, parameter=parameter)


# ---- features

MANY_WORDS = 100  # different words of a column; with more, it is an id or free text rather than a category
ID_NAME = re.compile(r"(?i:(.*[ _.-])?(id|uuid|guid|key|reference|number))|\w+(Id|ID)")
LABEL_NAME = re.compile(
    r"(?i:(is|was|has)?[ _.-]?(labels?|targets?|class|y|fraud|fraudulent|anomaly|anomalous|outlier|malicious|malware"
    r"|chargeback|attacks?|attack[ _.-]?(cat|category|type|name)|ground[ _.-]?truth)|.*[ _.-]labels?)|\w+Labels?"
)
MAY_BE_LABEL = "may be a label; --features all, or name it, to use it"
FEWEST_OF_CLASS = 20  # labels of each class, with fewer of which a column may separate them by chance
REVEALING_AUC = 0.999  # of a single column


class Choice(NamedTuple):
    """features : positions of the columns to use; left_out : for each other column, by its position, why it is not used."""

    features: list[int]
    left_out: dict[int, str]


def choose_features(
    columns: Mapping[int, Any], names: Sequence[str], label: Any = None, *, without_labels: bool = False
) -> Choice:
    """Take columns of numbers, of truth values and of few different words; no ids, dates, constants and free text.

    columns : the columns that have no other role, by position; names : those of all columns of the table; label : the column
    of labels, by which columns that give it away are left out, with a warning; without_labels : whether columns that are
    named like labels are left out.
    """
    found = {at: _why_not(column, names[at]) for at, column in columns.items()}
    if without_labels:
        named = {at: MAY_BE_LABEL for at, why in found.items() if why is None and LABEL_NAME.fullmatch(names[at])}
        found |= named
    if label is not None:
        try:
            labels = as_labels(label)
        except EdgesError:  # which the caller finds and explains
            return Choice([], {})
        is_known = known(labels)
        for at in [at for at, why in found.items() if why is None]:
            features = as_features({names[at]: columns[at]})
            assert features is not None
            found[at] = revealing(features.matrix[:, 0], labels, is_known)
            if found[at] is not None:
                warn(
                    f"The column {names[at]!r} is not used as a feature: {found[at]}, so it is probably not known when a "
                    "row is scored.",
                    "Pass features= with the names of all features to use it.",
                )
    return Choice([at for at, why in found.items() if why is None], {at: why for at, why in found.items() if why})


def _why_not(values: Any, name: str) -> str | None:
    """Why a column is not a feature; None if it is one."""
    try:
        column = as_column(values, name)
    except EdgesError:
        return "neither numbers nor text"
    if not isinstance(column, np.ndarray):
        words = column.drop_nulls()
        distinct = words.unique()
        if len(distinct) <= 1:
            return "the same in every row" if len(distinct) else "empty"
        with suppress(EdgesError):
            if as_times(distinct.head(1000).to_list())[1] is not None:
                return "dates"
        if len(distinct) == len(words) and len(words) > MANY_WORDS:
            return "different in every row"
        return f"text with {len(distinct):,} different values" if len(distinct) > MANY_WORDS else None
    column = column[~nulls(column)]
    if not len(column):
        return "empty"
    if column.dtype.kind in "mM":
        return "dates"
    if column.dtype.kind not in "iufb":
        return "neither numbers nor text"
    if (column == column[0]).all():
        return "the same in every row"
    is_counter = column.dtype.kind in "iu" and len(column) >= MANY_WORDS and bool((np.diff(column) > 0).all())
    return "an id" if is_counter or (column.dtype.kind in "iu" and ID_NAME.fullmatch(name) is not None) else None


def revealing(values: NDArray[np.floating[Any]], label: NDArray[Any], is_known: NDArray[np.bool_]) -> str | None:
    """Why a feature gives the label away; None if it does not. Only rows with a known label are looked at for its values.

    values : numbers, or codes of categories; label : labels, of which those that `is_known` marks count.
    """
    is_there = np.isfinite(values)
    if not is_known.all() and is_known.any() and np.array_equal(is_there, is_known):
        return "it is known only where the label is"
    classes, code, count = np.unique(label[is_known & is_there], return_inverse=True, return_counts=True)
    if len(classes) < 2 or count.min() < FEWEST_OF_CLASS:
        return None
    from scipy.stats import rankdata

    rank = rankdata(values[is_known & is_there])
    for k, n in enumerate(count if len(classes) > 2 else count[:1]):
        area = (rank[code == k].sum() - n * (n + 1) / 2) / (n * (len(code) - n))
        if max(area, 1.0 - area) > REVEALING_AUC:
            return f"it tells {classes[k]!s} from all other labels by itself"
    return None
