"""Tables in markdown, and the places of pages that they are written into."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tdlg.atomic import new_file
from tdlg.exceptions import ReadError

PAGE = Path("docs/results.md")
NOT_RUN = "not run"

Lines = list[str]


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> Lines:
    """The lines of a table whose first columns are text and whose others are numbers."""
    marks = ["---" if place < left else "---:" for place in range(len(head))]
    return [f"| {' | '.join(line)} |" for line in (head, marks, *rows)]


def section(text: str, name: str) -> str:
    """What stands between `<!-- name -->` and `<!-- /name -->` in the text of a page."""
    return _parts(text, name)[1].strip()


def write_sections(page: Path, sections: Mapping[str, Lines]) -> None:
    """Put each text between its two marks in the page; a page that is not there has these texts alone."""
    text = "" if page.exists() else "\n\n".join(f"## {name}\n\n<!-- {name} --><!-- /{name} -->" for name in sections)
    text = page.read_text(encoding="utf-8") if page.exists() else f"{text}\n"
    for name, lines in sections.items():
        before, _, after = _parts(text, name)
        inside = "\n".join(lines).strip()
        text = f"{before}<!-- {name} -->\n\n{inside}\n\n<!-- /{name} -->{after}"
    page.parent.mkdir(parents=True, exist_ok=True)
    with new_file(page) as draft:
        draft.write(text.encode())


def _parts(text: str, name: str) -> tuple[str, str, str]:
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, found, rest = text.partition(begin)
    inside, closed, after = rest.partition(end)
    if not (found and closed):
        raise ReadError(f"The page has no place for the section {name!r}. Add a line {begin!r} and a line {end!r}.")
    return before, inside, after
