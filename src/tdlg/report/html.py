"""Pieces that the sections of the page are made of. All that a user's data can hold goes through `escaped`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan
from typing import NamedTuple

from tdlg.report.subject import Subject
from tdlg.report.svg import marker
from tdlg.report.text import escaped, share

__all__ = [
    "GROUPS",
    "Cell",
    "code",
    "facts",
    "group_of",
    "groups",
    "key",
    "legend",
    "meter",
    "paragraph",
    "plate",
    "probability",
    "section",
    "swatch",
    "table",
]

GROUPS = 6  # marks that can be distinguished, besides the mark of unlabelled edges
ROWS_AT_FIRST = 25  # rows of a table that are shown at first
SIGNS = ("circle", "triangle", "circle", "square", "diamond", "plus", "cross")  # of the groups, as the script has them


# ---- blocks


def section(name: str, title: str, *body: str) -> str:
    """A part of the page with its heading."""
    return f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{title}</h2>{"".join(body)}</section>'


def paragraph(text: str, css: str = "") -> str:
    """Prose; the text is HTML already."""
    return f'<p class="{css}">{text}</p>' if css else f"<p>{text}</p>"


def code(text: str) -> str:
    """A label or name among prose."""
    return f'<b class="value">{escaped(text)}</b>'


def facts(lines: Iterable[tuple[str, str]], css: str = "facts") -> str:
    """A list of terms and what they are."""
    rows = "".join(f"<div><dt>{title}</dt><dd>{value}</dd></div>" for title, value in lines)
    return f'<dl class="{css}">{rows}</dl>'


def plate(title: str, drawing: str, note: str, keys: str = "") -> str:
    """A chart with its title above and how to read it below."""
    return f'<figure><figcaption><h3>{title}</h3>{keys}</figcaption>{drawing}<p class="note">{note}</p></figure>'


# ---- signs


def groups(subject: Subject) -> list[int]:
    """The classes that get a colour of their own, the one looked for first; the rest share the last colour."""
    others = [k for k in range(len(subject.classes)) if k != subject.positive]
    most = GROUPS if len(subject.classes) <= GROUPS else GROUPS - 1
    return [subject.positive, *others][:most]


def group_of(subject: Subject, k: int) -> int:
    """The group that a class is drawn as: 0 the unknown, 1 the class looked for."""
    shown = groups(subject)
    return 0 if k < 0 else shown.index(k) + 1 if k in shown else GROUPS


def swatch(group: int) -> str:
    """The sign of a group, beside its name."""
    css = f"g{group} hollow" if group == 0 else f"g{group}"
    return f'<svg class="swatch" viewBox="0 0 14 14" aria-hidden="true">{marker(SIGNS[group], 7, 7, 3.8, css)}</svg>'


def meter(part: float, css: str) -> str:
    """A share of 1 as a bar."""
    return (
        '<svg class="meter" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="rail" width="100" height="8"/><rect class="{css}" width="{100 * part:.2f}" height="8"/></svg>'
    )


def probability(value: float) -> str:
    """A probability as text and as a bar."""
    return f"{escaped(share(value))}{meter(value, 'g1')}"


def key(items: Iterable[tuple[str, str]]) -> str:
    """A legend of drawn signs and their names."""
    shown = "".join(f"<li>{sign}{escaped(name)}</li>" for sign, name in items)
    return f'<ul class="legend">{shown}</ul>'


def legend(subject: Subject) -> str:
    """The signs of the classes."""
    items = [(swatch(group_of(subject, k)), subject.called(k)) for k in groups(subject)]
    if len(subject.classes) > len(items):
        items.append((swatch(GROUPS), "other classes"))
    return key(items)


# ---- tables


class Cell(NamedTuple):
    """A cell of a table.

    Attributes
    ----------
    body
        As HTML.
    css
        Its class in the style sheet.
    value
        What it is sorted by where that is a number; NaN where the value is missing.
    exported
        Its text in a downloaded table, where that is neither the value nor the text of the body.
    """

    body: str
    css: str = ""
    value: float | None = None
    exported: str | None = None


def table(name: str, heads: Sequence[tuple[str, str]], rows: Iterable[Sequence[Cell]], hint: str) -> str:
    """A table that the script lets be sorted, searched and downloaded; without it all rows are there.

    Parameters
    ----------
    name
        Of its section.
    heads
        What stands above each column, as plain text, and what it is sorted as: "number", "time", "text" or not at all.
        The rows come sorted by the first.
    rows
        The cells of each.
    hint
        What can be searched for.
    """
    tools = (
        f'<div class="tools"><label>Search <input type="search" data-search="{name}" placeholder="{hint}" '
        f'autocomplete="off" spellcheck="false"></label><output data-found="{name}" aria-live="polite"></output>'
        f'<button type="button" class="more" data-download="{name}" hidden></button></div>'
    )
    above = "".join(_head(head, sorted_as, is_first=k == 0) for k, (head, sorted_as) in enumerate(heads))
    names = [escaped(head) for head, _ in heads]
    body = "".join(f"<tr>{''.join(map(_cell, names, cells))}</tr>" for cells in rows)
    return (
        f'{tools}<div class="scroll" tabindex="0" role="region" aria-labelledby="{name}-title">'
        f'<table class="list" id="{name}-table" aria-labelledby="{name}-title" data-few="{ROWS_AT_FIRST}">'
        f"<thead><tr>{above}</tr></thead><tbody>{body}</tbody></table></div>"
        f'<button type="button" class="more" data-more="{name}" hidden></button>'
    )


def _cell(head: str, cell: Cell) -> str:
    """A cell that repeats its heading, for narrow screens."""
    value = "" if cell.value is None else f' data-value="{"" if isnan(cell.value) else f"{cell.value:.12g}"}"'
    exported = "" if cell.exported is None else f' data-csv="{escaped(cell.exported)}"'
    return f'<td class="{cell.css}" data-head="{head}"{value}{exported}>{cell.body}</td>'


def _head(head: str, sorted_as: str, *, is_first: bool) -> str:
    order = ' aria-sort="ascending"' if is_first else ""
    text, css = escaped(head), "figure" if sorted_as == "number" else ""
    values = "text" if sorted_as == "text" else "number"
    inner = f'<button type="button" data-kind="{values}" title="Sort by {text}">{text}</button>' if sorted_as else text
    return f'<th scope="col" class="{css}"{order}>{inner}</th>'
