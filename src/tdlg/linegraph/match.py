"""What two edges must have in common: the one table of matches, and the keys by which edges are found.

A row and a column are joined where the key of the row equals the key of the column. Keys are made of ends of edges, so that
everything that looks for edges (the operator, tables, buckets of a file, streams) sorts or looks up the same keys.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

MatchName = Literal["any", "src", "dst", "src-dst", "dst-src", "pair", "reversed"]
Codes = NDArray[np.int32]
EndCodes: TypeAlias = tuple[Codes, Codes]  # sources and destinations

ENDS = {"src": (0,), "dst": (1,), "pair": (0, 1), "reversed pair": (1, 0)}  # of a key: 0 source, 1 destination
KINDS = ("src", "dst", "pair")  # what edges are filed by


class Match(NamedTuple):
    """Which ends of a row and of a column must be the same nodes: keys in `ENDS`, or "ends" for any end."""

    name: MatchName
    row: str
    col: str
    transpose: MatchName

    @property
    def same_ends(self) -> bool:
        """Whether both edges have the nodes at the same ends, so that edges match themselves."""
        return self.row == self.col


MATCHES: dict[str, Match] = {
    match.name: match
    for match in (
        Match("any", "ends", "ends", "any"),
        Match("src", "src", "src", "src"),
        Match("dst", "dst", "dst", "dst"),
        Match("src-dst", "src", "dst", "dst-src"),
        Match("dst-src", "dst", "src", "src-dst"),
        Match("pair", "pair", "pair", "pair"),
        Match("reversed", "reversed pair", "pair", "reversed"),
    )
}
NODE_MATCHES = tuple(name for name in MATCHES if name != "any")  # one key per edge
SAME_ENDS = tuple(name for name in NODE_MATCHES if MATCHES[name].same_ends)  # all that edges of two types can match by


def match_keys(rows: EndCodes, cols: EndCodes, n_nodes: int, match: str) -> tuple[Codes, Codes, int]:
    """Keys of rows and of columns, (edges, 1) or (edges, 2) for "any", -1 where an end matches nothing; their number.

    rows, cols : codes of nodes, -1 for a node that no column has; the same object if the edges are the same.
    """
    _, row, col, _ = MATCHES[match]
    if col == "pair":
        return _pair_keys(rows, cols, n_nodes, row)
    row_keys = _end_keys(rows, row)
    return row_keys, row_keys if rows is cols and row == col else _end_keys(cols, col), n_nodes


def _end_keys(codes: EndCodes, key: str) -> Codes:
    src, dst = codes
    if key == "ends":
        return np.stack([src, np.where(src == dst, np.int32(-1), dst)], axis=1)  # a self-loop has one end
    return codes[ENDS[key][0]][:, np.newaxis]


def _pair_keys(rows: EndCodes, cols: EndCodes, n_nodes: int, row: str) -> tuple[Codes, Codes, int]:
    """Number the ordered pairs of nodes that occur."""
    from tdlg._kernels.layout import dense_codes, stable_argsort

    same = rows is cols and row == "pair"
    first, second = (rows[end][: 0 if same else None] for end in ENDS[row])
    pairs = np.concatenate([one.astype(np.int64) * n_nodes + other for one, other in ((first, second), cols)])
    codes = dense_codes(pairs, stable_argsort(pairs))
    row_keys = np.where((first < 0) | (second < 0), np.int32(-1), codes[: first.size])[:, np.newaxis]
    col_keys = codes[first.size :][:, np.newaxis]
    return col_keys if same else row_keys, col_keys, int(codes.max(initial=-1)) + 1
