"""The one description of the propagated columns: their order, their names and what each of them is about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tdlg.propagate.own_features import OwnColumn

__all__ = ["ANY_CLASS", "OWN_MATCHES", "Column", "Description"]

OWN_MATCHES = ("src", "dst", "pair")  # matches whose neighbours an edge's own features are compared with
ANY_CLASS = -1


class Column(NamedTuple):
    """What a propagated column is about.

    Attributes
    ----------
    name
        Its name, such as "src:rate@1".
    match
        The neighbours that it describes, such as "src"; "" for an edge's own feature.
    about
        What it measures: "rate" or "mean" (labels), "known" (how many labels), "count", "gaps", "feature" (beside the
        neighbours' features), "usual" (the neighbours' features themselves), "own"; "partners", "agreement" (of nodes that
        are alike) or "common" (how many such nodes there are), see `two_ends`.
    feature
        The feature that it is about; "" if none.
    of_class
        Position of the class that it is about; `ANY_CLASS` if none.
    scale
        Position of its time scale; -1 if it has none.
    """

    name: str
    match: str
    about: str
    feature: str = ""
    of_class: int = ANY_CLASS
    scale: int = -1


class Description(NamedTuple):
    """All that determines the columns.

    Attributes
    ----------
    matches, scale_names
        The matches, and the names of the time scales.
    targets
        Name and class of each target, such as [("rate", ANY_CLASS)].
    own
        The features of the edges.
    past_only
        Whether there is no column for the time to the next edge.
    two_ends
        The columns about both ends of an edge together.
    """

    matches: Sequence[str]
    scale_names: Sequence[str]
    targets: Sequence[tuple[str, int]]
    own: Sequence[OwnColumn]
    past_only: bool
    two_ends: Sequence[Column] = ()

    def names(self) -> list[str]:
        """Names of all columns that any library takes: letters, digits and _.+=- only, each name once."""
        names: dict[str, None] = {}
        for column in self.columns():
            name = re.sub(r"[^\w.+=-]+", "_", column.name).strip("_")
            again = (f"{name}_{k}" for k in range(2, len(names) + 3))  # two features may differ in other characters
            names[name if name not in names else next(one for one in again if one not in names)] = None
        return list(names)

    def columns(self) -> list[Column]:
        """All columns, in order: those of each match, of both ends together, then the edge's own features."""
        blocks = [self.of_match(match) for match in [*self.matches, *self.category_matches()]]
        return [column for block in [*blocks, self.two_ends, self.own_columns()] for column in block]

    def category_matches(self) -> dict[str, tuple[str, str]]:
        """The matches of edges of the same category, for features with many: the feature, and the end that is shared too."""
        names = [column.name for column in self.own if column.has_more]
        ends = {"": "", "src": "src+", "dst": "dst+"}
        return {f"{words}category[{name}]": (name, end) for name in names for end, words in ends.items()}

    def of_match(self, match: str) -> list[Column]:
        """The columns of one match: those of each time scale, then the gaps."""
        feature, _ = self.category_matches().get(match, ("", ""))
        columns = [
            Column(f"{match}:{column.name}@{name}", match, *column[2:5], scale=k)
            for k, name in enumerate(self.scale_names)
            for column in self.of_scale(match)
        ]
        columns += [
            Column(f"{match}:{gap}", match, "gaps") for gap in ("before", "after")[: 1 if self.past_only else 2]
        ]
        return [column._replace(about="own", feature=feature) for column in columns] if feature else columns

    def of_scale(self, match: str) -> list[Column]:
        """The columns of one match and one time scale, named without both."""
        about = self.targets[0][0].partition("[")[0] if self.targets else ""
        columns = [Column(name, match, about, of_class=of) for name, of in self.targets]
        columns += [Column("known", match, "known")] if self.targets else []
        columns.append(Column("count", match, "count"))
        for own in self.own if match in OWN_MATCHES else ():
            for what in own.beside:
                compared = "usual" if what == "mean" else "feature"
                columns.append(Column(f"{what}[{own.name}]", match, compared, own.name))
        return columns

    def own_columns(self) -> list[Column]:
        """An edge's own features: numbers, and indicators of categories."""
        return [
            Column(name, "", "own", own.name)
            for own in self.own
            for name in ([f"{own.name}={category}" for category in own.categories] or [own.name])
        ]
