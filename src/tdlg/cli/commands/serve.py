"""The command serve."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from tdlg.cli.live import (
    Ahead,
    AlertsPerDay,
    AllowMissing,
    IdColumn,
    Keep,
    LateEvents,
    StateFolder,
    Threshold,
    open_live,
)
from tdlg.cli.options import example
from tdlg.cli.process import heed_termination
from tdlg.cli.terminal import is_terminal, note

__all__ = ["check_installed", "register"]

SWITCH = 0.0005  # seconds after which a thread lets another one run
HOUR = 3600.0  # seconds
NEVER = 1_000_000  # collections of younger objects, until all objects are looked at


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
            metavar="[MODEL]", help="Model file that another command wrote with --save; for a new state only."
        ),
    ] = None,
    *,
    state: StateFolder,
    host: Annotated[
        str, typer.Option(help="Address to listen on. An address that other machines can reach needs --token-file.")
    ] = "127.0.0.1",
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
    alerts_per_day: AlertsPerDay = None,
    threshold: Threshold = None,
    keep: Keep = None,
    late: LateEvents = None,
    ahead: Ahead = None,
    allow_missing: AllowMissing = None,
    src: Annotated[
        str | None,
        typer.Option(metavar="FIELD", help="Field of the source, for example customer. Stored with the state."),
    ] = None,
    dst: Annotated[
        str | None,
        typer.Option(metavar="FIELD", help="Field of the destination, for example terminal. Stored with the state."),
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="FIELD", help="Field of the time, for example when. Stored with the state.")
    ] = None,
    id: IdColumn = None,
) -> None:
    """Score events over HTTP as they happen, learn labels that come later, and show a page for those who look at alerts.

    The page, the desk, is at the address that is printed. Events are sent to /score and labels to /labels; /openapi.json
    describes all addresses. An answer leaves when the events are on the disk, so nothing that was answered is lost. Ctrl-C
    and SIGTERM finish what was accepted and stop.
    """
    check_installed("tdlg serve")
    from tdlg.serve.auth import read_token
    from tdlg.serve.service import Service, check_address

    token = None if token_file is None else read_token(token_file)
    check_address(host, token)
    heed_termination()
    given = {"src": src, "dst": dst, "time": time, "id": id}
    columns = {role: field for role, field in given.items() if field is not None}
    options = {"keep": keep, "late": late, "ahead": ahead, "threshold": threshold}
    options |= {"alerts_per_day": alerts_per_day, "allow_missing": allow_missing}
    with (
        _logged(),
        open_live(state, model, columns=columns or None, **options) as live,
        Service(live, host=host, port=port, token=token, allowed_hosts=allowed_host or ()) as service,
    ):
        try:
            avoid_pauses()
            note(f"desk: {service.url} (Ctrl-C stops)")
            while not service.wait(HOUR):
                gc.collect()
        except KeyboardInterrupt:
            note("stopping")


@contextmanager
def _logged() -> Iterator[None]:
    """Where stderr is the log of a supervisor, write there what is otherwise said on a terminal only: that it compiles."""
    if is_terminal(sys.stderr):
        yield
        return
    logger, handler = logging.getLogger("tdlg"), logging.StreamHandler()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def avoid_pauses() -> None:
    """Avoid long pauses: switch threads often, and freeze the garbage collector's old generation, collected once an hour."""
    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, NEVER)


def check_installed(command: str) -> None:
    """Say what to install if the extra, which `command` needs, is missing."""
    if any(find_spec(name) is None for name in ("msgspec", "prometheus_client", "starlette", "uvicorn")):
        raise ImportError(
            f"{command} needs starlette, uvicorn, msgspec and prometheus-client. From a clone of tdlg, run: "
            'pip install ".[serve]".'
        )
