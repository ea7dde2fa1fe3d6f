"""Which column of a table is which: named or counted by the caller, else found by its usual name."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from typing import Any, NoReturn, TypeAlias

import numpy as np

from tdlg._columns.files import Source
from tdlg.exceptions import ReadError

__all__ = ["Which", "named_by_comment", "position_of", "roles", "usual_at"]

Which: TypeAlias = "str | int | None"

USUAL_NAMES = {
    "src": "src source source_id from from_id from_node from_node_id fromnodeid from_address u user user_id userid "
    "sender sender_id payer rater reviewer follower buyer customer head node1 i",
    "dst": "dst dest destination target target_id tgt to to_id to_node to_node_id tonodeid to_address v item "
    "item_id itemid receiver receiver_id recipient payee ratee reviewee followee seller product tail node2 j",
    "time": "time timestamp ts t date datetime unixtime unix_time epoch created created_at time_stamp",
}


def named_by_comment(source: Source, wanted: list[Any]) -> Source:
    """Give the table with the names of the last comment that has all that are asked for, or else src and dst."""
    asked = {which for which in wanted if isinstance(which, str)}
    for names in [] if source.has_names else reversed(source.comments):
        if asked <= set(names) if asked else usual_at(names, "src") and usual_at(names, "dst"):
            return replace(source, names=names, has_names=True)
    return source


def roles(source: Source, wanted: dict[str, Which]) -> dict[str, int]:
    """Position of each column that is given, and of src, dst and time by their usual names or places."""
    at = {role: position_of(source, role, which) for role, which in wanted.items() if which is not None}
    if source.has_names:
        for role in ("src", "dst", "time"):
            if role not in at:
                at[role] = _usual(source, role, at)
    else:
        at = {**_by_position(source, at), **at}
    _check_distinct(source, {role: at[role] for role in ("src", "dst", "time")})
    return {role: at[role] for role in wanted if role in at}


def position_of(source: Source, role: str, which: Any) -> int:
    """Position of the column that the caller means, by its name or its position."""
    n_columns = len(source.names)
    if isinstance(which, str) and source.has_names:
        named = [k for k, name in enumerate(source.names) if name == which]
        if len(named) == 1:
            return named[0]
        if named:
            _fail(source, f"The name {which!r} for '{role}' stands for the columns {named}. Pass a position.")
        close = difflib.get_close_matches(which, source.names, 1, 0.6)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        _fail(source, f"No column {which!r} for '{role}'.{hint} {_present(source)}")
    if isinstance(which, int | np.integer) and not isinstance(which, bool) and 0 <= which < n_columns:
        return int(which)
    allowed = f"a name or a position from 0 to {n_columns - 1}"
    _fail(source, f"The '{role}' must be {allowed}. Got {which!r} instead. {_present(source)}")


def usual_at(names: list[str], role: str) -> list[int]:
    """Positions of the names that are usual for `src`, `dst` or `time`, however they are written.

    Examples
    --------
    >>> usual_at(["When", "User-ID", "to"], "src")
    [1]
    """
    usual = USUAL_NAMES[role].split()
    plain = [re.sub(r"[\s-]+", "_", name.strip().lower()) for name in names]
    return [k for k, name in enumerate(plain) if name in usual]


def _usual(source: Source, role: str, at: dict[str, int]) -> int:
    usual = usual_at(source.names, role)
    found = [k for k in usual if k not in at.values()]
    if len(found) == 1:
        return found[0]
    if found:
        names = [source.names[k] for k in found]
        first = found[0] if names.count(names[0]) > 1 else repr(names[0])
        _fail(source, f"More than one column may be '{role}': {names}. Pass {role}={first}, or another.")
    way_out = f"{_present(source)} Pass {role}= with a name."
    if usual:
        other = next(other for other, k in at.items() if k == usual[0])
        _fail(source, f"The column {source.names[usual[0]]!r} is '{other}', and no other is '{role}'. {way_out}")
    _fail(source, f"No column has a usual name for '{role}'. {way_out}")


def _by_position(source: Source, at: dict[str, int]) -> dict[str, int]:
    if len(source.names) == 3 or "time" in at:
        return {"src": 0, "dst": 1, "time": 2}
    last = len(source.names) - 1
    way_out = f"Pass src=, dst= and time= with positions, such as src=0, dst=1, time={last}."
    _fail(source, f"There are {last + 1} columns and no names. {_present(source)} {way_out}")


def _present(source: Source) -> str:
    if source.has_names:
        return f"The columns are {source.names}."
    return f"The first row, by position, is {dict(enumerate(source.first_row))}."


def _check_distinct(source: Source, at: dict[str, int]) -> None:
    for role, position in at.items():
        twin = next(other for other in at if at[other] == position)
        if twin != role:
            column = source.names[position]
            _fail(source, f"The column {column!r} is both '{twin}' and '{role}'. {_present(source)} Pass {role}=.")


def _fail(source: Source, message: str) -> NoReturn:
    raise ReadError(f"{source.origin}: {message}")
