"""The commands info, datasets and demo."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import polars as pl
import typer

from tdlg.cli.group import command
from tdlg.cli.options import FeatureColumns, Labels, Seed, as_usage, example, wrong
from tdlg.cli.output import aligned, give, note, one_line, working
from tdlg.cli.tables import note_words, read_table, scanned
from tdlg.datasets.fetch import DATASETS, dataset_file, is_available
from tdlg.io.read import file_source
from tdlg.memory import as_bytes
from tdlg.models.fits import reason_for_disk
from tdlg.tables.text import count

if TYPE_CHECKING:
    from tdlg.models.describe import Fact

QUOTE = "'"

commands = typer.Typer(rich_markup_mode=None)


@command(commands, "tdlg info payments.csv")
def info(edges: Path, *, labels: Labels, memory: str | None = None, columns: FeatureColumns) -> None:
    """Show how a table is read: columns, ids, times and degrees, and what classify would need.

    Parameters
    ----------
    label : COLUMN
        Label column to describe: name or 0-based position.
    memory : SIZE
        Show what classify --memory SIZE would take, for example 2GB.
    """
    why = None if memory is not None else reason_for_disk(edges)
    if memory is not None or why is not None:
        facts = _facts_of_file(edges, columns, labels, memory, why)
    else:
        with working("reading"):
            table = read_table(edges, columns, labels)
        note_words(table.edges, columns)
        from tdlg.models.describe import describe

        facts = describe(table)
    typer.echo(aligned([(fact.name, one_line(fact.text + _in_shell_words(fact.hint))) for fact in facts]))


def _facts_of_file(
    path: Path, columns: FeatureColumns, labels: Labels, memory: str | None, why: str | None
) -> list[Fact]:
    """What is known of a table that is read in blocks."""
    with as_usage("memory", "--memory"):
        as_bytes(memory or "2GB")
    from tdlg.models.describe import Fact, describe_scanned

    table = scanned(path, columns, labels)
    with working("reading"):
        *facts, needs = describe_scanned(table, memory)
    given = "tdlg classify" if memory is None else f"tdlg classify --memory {memory}"
    because = "" if why is None else f" ({why})"
    return [*facts, Fact(given, f"on disk, without the similarity features{because}; {needs.text}")]


def _in_shell_words(hint: str) -> str:
    """A hint with options in place of arguments."""

    def option(found: re.Match[str]) -> str:
        name, value = f"--{found[1].replace('_', '-')}", found[2]
        return name if value in (None, "True") else f"{name} {shlex.quote(value.strip(QUOTE))}"

    return re.sub(r"\b([a-z_]+)=(True|'[^']*')?", option, hint)


# ---- data sets

datasets = typer.Typer(
    invoke_without_command=True, rich_markup_mode=None, epilog=example("tdlg datasets get bitcoinalpha -o alpha.csv")
)
commands.add_typer(datasets, name="datasets")


@datasets.callback()
def _datasets(context: typer.Context) -> None:
    """List the public data sets, or download one."""
    if context.invoked_subcommand is None:
        list_datasets()


@command(datasets, "tdlg datasets list", name="list")
def list_datasets(*, output: Path | None = None) -> None:
    """List the public data sets."""
    rows = [
        {
            "name": one.name,
            "nodes": one.n_nodes,
            "edges": one.n_edges,
            "days": one.days,
            "positive_percent": one.positive,
            "here": "yes" if is_available(one.name) else "no",
            "label": one.label,
        }
        for one in DATASETS.values()
    ]
    give(pl.DataFrame(rows), output, shown=[name for name in rows[0] if name != "label"])


def _names(incomplete: str) -> list[str]:
    return [name for name in DATASETS if name.startswith(incomplete)]


@command(datasets, "tdlg datasets get bitcoinalpha -o alpha.csv", name="get")
def get_dataset(name: Annotated[str, typer.Argument(autocompletion=_names)], *, output: Path | None = None) -> None:
    """Download a public data set and print the path of its file, or write it as a table with named columns (-o).

    Parameters
    ----------
    name : NAME
        Name of a data set; `tdlg datasets list` lists them.
    """
    with working(f"downloading {name}"):
        path: Path = dataset_file(name)
    known = DATASETS[name]
    note(f"{name}: {count(known.n_edges, 'edge')}; columns {', '.join(known.columns)}; licence: {known.licence}")
    note(f"cite: {known.citation}")
    if known.note:
        note(f"note: {known.note}")
    if output is None:
        typer.echo(path)
    else:
        every = list(range(len(known.columns)))
        read = file_source(path).read(every, set(), set(every))
        give(pl.DataFrame(dict(zip(known.columns, (read[at] for at in every), strict=True))), output)


# ---- the demo


@command(commands, "tdlg demo --report demo.html", "tdlg demo --live")
def demo(
    *,
    report: Path | None = None,
    live: bool = False,
    open: bool | None = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535)] = None,
    seed: Seed = 0,
) -> None:
    """Find the frauds among synthetic card payments and say why, in less than a minute.

    Parameters
    ----------
    report : PAGE
        Path of the HTML report to write. By default tdlg-demo.html.
    live
        Play synthetic payments into a live service, and show its desk instead.
    open
        With --live, open the desk in a browser, which is the default.
    port : NUMBER
        With --live, the port; 0, the default, takes a free one.
    """
    others = {"--report": report} if live else {"--open": open, "--port": port}
    for name, value in others.items():
        if value is not None:
            raise wrong(name, f"it works only with{'out' * live} --live. Leave out one.")
    if live:
        _live_demo(open is not False, port or 0, seed)
        return
    from tdlg.demo import run_demo

    report = report or Path("tdlg-demo.html")
    run_demo(report, random_state=seed, say=typer.echo)


def _live_demo(browser: bool, port: int, seed: int) -> None:
    import webbrowser

    from tdlg.cli.group import heed_termination
    from tdlg.cli.serve import check_installed

    check_installed("tdlg demo --live")
    from tdlg.serve.demo import run_live_demo

    heed_termination()
    try:
        run_live_demo(port=port, random_state=seed, say=typer.echo, show=webbrowser.open if browser else None)
    except KeyboardInterrupt:
        note("stopped")
