"""The commands serve and refit, which work on the state of a live model."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tdlg.cli.group import command
from tdlg.cli.options import EventFields, LiveOptions, given_options, number_or_text, wrong
from tdlg.cli.output import aligned, is_terminal, note, working
from tdlg.exceptions import ParameterError
from tdlg.tables.text import count

if TYPE_CHECKING:
    from tdlg.live.model import LiveModel
    from tdlg.live.refit import Scores

SWITCH = 0.0001  # seconds after which a thread lets another one run: a question must not hold up the event loop
HOUR = 3600.0  # seconds
NEVER = 1_000_000  # collections of younger objects, until all objects are looked at

commands = typer.Typer(rich_markup_mode=None)


def opened(state: Path, model: Path | None, events: EventFields, options: LiveOptions) -> LiveModel:
    """Open the state of a live model, or start a new one."""
    from tdlg.live.model import LiveModel

    with working("reading the state"):
        return LiveModel.open(state, model, columns=given_options(**asdict(events)) or None, **asdict(options))


# ---- refit


@command(commands, "tdlg refit --state live")
def refit(*, state: Path, force: bool = False, shadow: bool = False, back: bool = False) -> None:
    """Learn a new model from all events and labels of a state, and use it unless it is worse.

    Both models are compared on the latest labelled events, each scored with what was known when it came. The old model stays
    if the new one has a smaller average precision (for numbers, a larger error) by more than chance, or if most of these
    labels are of alerts. After a change it is kept: see --back.

    Parameters
    ----------
    state : DIR
        Folder of the state. A service that uses it takes the new model over.
    force
        Use the new model even if it is worse, or cannot be compared.
    shadow
        Put the new model beside the old one instead: both score what comes, the old one answers, and the desk compares them
        (`tdlg promote`). Needs a service or stream that uses the state, now or later.
    back
        Go back to the model before the present one.
    """
    from tdlg.live.refit import go_back
    from tdlg.live.refit import refit as fit_again

    if back and (force or shadow):
        raise wrong("--force" if force else "--shadow", "it has no meaning with --back. Leave out one of the two.")
    if not state.is_dir():
        problem = (
            f"{state}: there is no state directory. `tdlg serve`, `tdlg stream` and `tdlg score --state` make one."
        )
        raise ParameterError(problem, parameter="state")
    if back:
        note(f"back to the model of {go_back(state)}")
        return
    with working("learning"):
        found = fit_again(state, force=force, shadow=shadow, callback=note)
    if shadow:
        note("the new model waits for the process that uses the state, where it scores beside the one in place")
        return
    if found.old is not None and found.new is not None:
        n_positive = "" if found.n_positive is None else f", {found.n_positive:,} of them positive"
        note(f"compared on {count(found.n_events, 'labelled event')}{n_positive}, {found.start} to {found.stop}")
        note(f"{found.n_alerts:,} of them had been alerts, {found.n_events - found.n_alerts:,} had not")
        typer.echo(_compared(found.old, found.new))
    if found.gain is not None:
        what = "average precision" if found.n_positive is not None else "error"
        low, high = (f"{end:+.3g}" for end in found.gain[1:])
        note(f"gain in {what}: {found.gain.value:+.3g} (80 % interval {low} to {high})")
    if found.is_requested:
        note(
            f"the new model waits for the process that uses the state, which takes it over within seconds: {found.reason}"
        )
    elif found.generation is None:
        note(f"the old model stays: {found.reason}; --force uses the new one nevertheless")
    else:
        note(f"the new model is in use, as {found.generation}: {found.reason}; --back returns to the old one")


def _compared(old: Scores, new: Scores) -> str:
    if old.error is not None:
        return aligned([["", "error"], *([name, f"{of.error:.4g}"] for name, of in (("old", old), ("new", new)))])
    rows = [[name, f"{of.auc:.3f}", f"{of.average_precision:.3f}"] for name, of in (("old", old), ("new", new))]
    return aligned([["", "AUC", "average precision"], *rows])


# ---- serve


@command(commands, "tdlg serve model.tdlg --state live", "tdlg serve --state live --port 8080")
def serve(
    model: Path | None = None,
    *,
    state: Path,
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    token_file: Path | None = None,
    allowed_host: list[str] | None = None,
    user_header: str | None = None,
    trusted_proxy: list[str] | None = None,
    webhook: str | None = None,
    webhook_secret_file: Path | None = None,
    refit_every: str | None = None,
    options: LiveOptions,
    events: EventFields,
) -> None:
    """Score events over HTTP as they happen, learn labels that come later, and show a page for those who look at alerts.

    The page, the desk, is at the address that is printed. Events are sent to /score and labels to /labels; /openapi.json
    describes all addresses. An answer leaves when the events are on the disk, so nothing that was answered is lost. Ctrl-C
    and SIGTERM finish what was accepted and stop.

    Parameters
    ----------
    model : [MODEL]
        Model file that another command wrote with --save; for a new state only.
    host : ADDRESS
        Address to listen on. An address that other machines can reach needs --token-file.
    port : NUMBER
        Port to listen on; 0 takes a free one.
    token_file : FILE
        File with the token that clients and the desk must know. By default none.
    allowed_host : NAME
        Name by which the service is reached, such as desk.example.org; repeatable.
    user_header : NAME
        Header in which a proxy that signs reviewers in gives their name; needs --trusted-proxy.
    trusted_proxy : ADDRESS
        Address of the proxy that sets --user-header; repeatable.
    webhook : URL
        Address to which new and decided alerts are sent; needs --webhook-secret-file.
    webhook_secret_file : FILE
        File with the secret with which requests to --webhook are signed.
    refit_every : DURATION
        Fit a challenger to the log whenever this much time of the events has passed, for example 7d, in a child process;
        it takes over when it is clearly better on what both have scored.
    """
    check_installed("tdlg serve")
    from tdlg.cli.group import heed_termination
    from tdlg.serve.auth import read_token
    from tdlg.serve.service import Service, check_address, check_proxy

    token = None if token_file is None else read_token(token_file)
    check_address(host, token)
    check_proxy(user_header, trusted_proxy or [], token)
    secret = None if webhook_secret_file is None else read_token(webhook_secret_file)
    heed_termination()
    with (
        _logged(),
        opened(state, model, events, options) as live,
        Service(
            live,
            host=host,
            port=port,
            token=token,
            allowed_hosts=allowed_host or (),
            user_header=user_header,
            trusted_proxies=trusted_proxy or (),
            webhook=webhook,
            webhook_secret=secret,
        ) as service,
    ):
        try:
            if refit_every is not None:
                live.refit_every(number_or_text(refit_every))
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
    """Say what to install if the extra is missing."""
    if any(find_spec(name) is None for name in ("msgspec", "prometheus_client", "starlette", "uvicorn")):
        raise ImportError(
            f"{command} needs starlette, uvicorn, msgspec and prometheus-client. From a clone of tdlg, run: "
            'pip install ".[serve]".'
        )
