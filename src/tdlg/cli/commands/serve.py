"""The command serve."""

from __future__ import annotations

import ipaddress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import typer

from tdlg.cli.options import example
from tdlg.cli.process import heed_termination
from tdlg.cli.terminal import note, working
from tdlg.exceptions import ParameterError

__all__ = ["check_installed", "register"]

LOOPBACK = "127.0.0.1"
COLUMN = "Field of the events that holds {}; stored for later. By default the usual names are detected."


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command(
        short_help="Score events over HTTP as they happen, with a page for alerts.",
        epilog=example("tdlg serve model.tdlg --state live", "tdlg serve --state live --port 8080"),
    )(serve)


def serve(
    model: Annotated[
        Path | None,
        typer.Argument(
            metavar="[MODEL]", help="Model that classify or outliers wrote with --save. Needed the first time."
        ),
    ] = None,
    *,
    state: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder of the log and the state; it is made if needed.")
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on. Any address but this machine's own needs --token-file.")
    ] = LOOPBACK,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with the token that clients and the desk must know. By default none."),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Name by which the service is reached, such as desk.example.org; repeatable."
        ),
    ] = None,
    alerts_per_day: Annotated[
        float | None,
        typer.Option(
            min=0, help="Number of alerts per day to aim at; stored for later. By default 20, or 5 % of events."
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Score from which on an event is an alert; stored for later. By default from --alerts-per-day."
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="How long the log is kept, for example 400d. By default all of it is kept."
        ),
    ] = None,
    late: Annotated[
        Literal["score", "refuse"] | None,
        typer.Option(help="What to do with an event that is earlier than the latest one; stored. By default score."),
    ] = None,
    id: Annotated[str | None, typer.Option(metavar="FIELD", help=COLUMN.format("the id"))] = None,
    src: Annotated[str | None, typer.Option(metavar="FIELD", help=COLUMN.format("the source"))] = None,
    dst: Annotated[str | None, typer.Option(metavar="FIELD", help=COLUMN.format("the destination"))] = None,
    time: Annotated[str | None, typer.Option(metavar="FIELD", help=COLUMN.format("the time"))] = None,
) -> None:
    """Score events over HTTP as they happen, learn labels that come later, and show a page for those who look at alerts.

    The page, the desk, is at the address that is printed. Events are sent to /score and labels to /labels; /openapi.json
    describes all addresses. An answer leaves when the events are on the disk, so nothing that was answered is lost. Ctrl-C
    finishes what was accepted and stops.
    """
    check_installed("tdlg serve")
    from tdlg.live.model import LiveModel
    from tdlg.serve.service import Service
    from tdlg.serve.tokens import read_token

    token = None if token_file is None else read_token(token_file)
    _check_host(host, token)
    heed_termination()
    columns = {"id": id, "src": src, "dst": dst, "time": time}
    given = {role: field for role, field in columns.items() if field is not None}
    with working("opening the state"):
        live = LiveModel.open(
            state,
            model,
            columns=given or None,
            keep=keep,
            late=late,
            threshold=threshold,
            alerts_per_day=alerts_per_day,
        )
    with live, Service(live, host=host, port=port, token=token, allowed_hosts=allowed_host or ()) as service:
        note(f"desk: {service.url} (Ctrl-C stops)")
        try:
            service.wait()
        except KeyboardInterrupt:
            note("stopping")


def check_installed(command: str) -> None:
    """Say what to install if the extra is missing.

    Parameters
    ----------
    command
        What needs it.
    """
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise ImportError(f'{command} needs starlette and uvicorn: pip install "tdlg[serve]".')


def _check_host(host: str, token: str | None) -> None:
    try:
        is_own = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_own = False
    if token is None and not is_own:
        raise ParameterError(
            f"Others can reach {host}, so the service needs a token that its clients know. Give a file with it by "
            f"--token-file, or listen on {LOOPBACK}."
        )
