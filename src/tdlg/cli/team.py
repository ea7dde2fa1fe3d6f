"""The commands token, snooze, rules, promote, audit and drift, which work beside a service."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, Literal

import typer

from tdlg.cli.group import command
from tdlg.cli.output import aligned, note, working
from tdlg.exceptions import ParameterError, TdlgError
from tdlg.tables.text import count

FIELDS = ("node", "to", "until", "note")

commands = typer.Typer(rich_markup_mode=None)


@command(commands, "tdlg token add anna --state live", "tdlg token revoke anna --state live")
def token(
    action: Literal["add", "revoke"], name: str, *, state: Path, role: Literal["analyst", "lead"] = "analyst"
) -> None:
    """Add a reviewer, or take a token back.

    The token is printed once and stored nowhere. The service that uses the state knows it within seconds; without a service,
    the next command that opens the state does. A second token for a name replaces the first.

    Parameters
    ----------
    action : ACTION
        add or revoke.
    name : NAME
        The reviewer.
    state : DIR
        Folder of the state.
    role
        analyst, or lead: who may also read the audit and set the reasons.
    """
    from tdlg.live.review import Review, leave_action, new_person
    from tdlg.live.store import read_manifest

    asked, secret = new_person(name, role)
    Review().check_action(asked)
    read_manifest(state)
    leave_action(state, asked if action == "add" else {**asked, "token": None})
    if action == "add":
        typer.echo(secret)
        note(f"the token of {name!r}, {role}; it is not stored and cannot be shown again")


@command(commands, "tdlg snooze known.csv --state live", "tdlg snooze known.csv --state live --end")
def snooze(file: Path, *, state: Path, end: bool = False) -> None:
    """Raise no alerts of the nodes and pairs in a file for a while.

    Their events are still scored and learnt from. The service that uses the state does it within seconds; without a service,
    the next command that opens the state does. /team and the desk list what is snoozed.

    Parameters
    ----------
    file : FILE
        csv file with the columns node, to (the destination of a pair, or empty), until (a time of the events; empty: until
        it is ended) and note.
    state : DIR
        Folder of the state.
    end
        End the snoozes of these nodes and pairs instead.
    """
    from tdlg.live.review import leave_action
    from tdlg.live.store import read_manifest

    actions = [_snooze(file, line, row, end) for line, row in _rows(file)]
    read_manifest(state)
    if actions:
        leave_action(state, actions)
    note(f"left for the process that uses the state: {count(len(actions), 'snooze')}{' to end' if end else ''}")


def _rows(file: Path) -> list[tuple[int, dict[str, str | None]]]:
    try:
        with open(file, encoding="utf-8-sig", newline="") as opened:
            reader = csv.DictReader(opened)
            names = reader.fieldnames or ()
            rows = [(reader.line_num, row) for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ParameterError(f"{file}: this is no csv file in UTF-8: {error}", parameter="file") from None
    if "node" not in names or {*names} - {*FIELDS}:
        raise ParameterError(
            f"{file}: the columns are node, to, until and note; node is needed. Got {', '.join(names)}.",
            parameter="file",
        )
    return rows


def _snooze(file: Path, line: int, row: dict[str, str | None], end: bool) -> dict[str, Any]:
    """The action of a line, checked but for what only the process that uses the state knows."""
    from tdlg.live.review import Review

    given = {name: (row.get(name) or "").strip() for name in FIELDS}
    action: dict[str, Any] = {"do": "snooze", "nodes": [given["node"], *([given["to"]] if given["to"] else [])]}
    action |= {"until": given["until"] or None, "note": given["note"]}
    try:
        Review().check_action(action)
    except TdlgError as error:
        raise ParameterError(f"{file}, line {line}: {error}", parameter="file") from None
    return {"do": "wake", "nodes": action["nodes"]} if end else action


@command(commands, "tdlg rules rules.toml --state live")
def rules(file: Path, *, state: Path) -> None:
    """Use the rules in a file beside the model, in place of those before: an event for which one holds is an alert.

    The service that uses the state does it within seconds, without a restart; without a service, the next command that opens
    the state does. An empty file ends all rules. `tdlg backtest --rules` says before what they would have found.

    Parameters
    ----------
    file : FILE
        TOML file, for example with [[rule]], name = "often", all = ["count(src, 1h) >= 10", "amount > 50"].
    state : DIR
        Folder of the state.
    """
    from tdlg.live.model import check_rules
    from tdlg.live.review import leave_action

    text = read_rules(file)
    found = check_rules(state, text, file.name)
    leave_action(state, {"do": "rules", "text": text, "file": file.name})
    note(f"left for the process that uses the state: {count(len(found.rules), 'rule')}")


def read_rules(file: Path) -> str:
    """The text of a file of rules."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ParameterError(f"{file}: the rules must be text in UTF-8.", parameter="file") from None


@command(commands, "tdlg promote --state live")
def promote(*, state: Path, drop: bool = False) -> None:
    """Let the challenger, which `tdlg refit --shadow` put beside the model in place, answer from now on.

    The service that uses the state does it within seconds, by one record of its log; without a service, it is done at once.
    `tdlg refit --back` returns to the model before.

    Parameters
    ----------
    state : DIR
        Folder of the state.
    drop
        End the challenger instead.
    """
    from contextlib import suppress

    from tdlg.live.model import LiveModel
    from tdlg.live.review import leave_action
    from tdlg.live.store import InUseError, read_manifest

    read_manifest(state)
    leave_action(state, {"do": "drop" if drop else "promote"})
    note(f"left for the process that uses the state: {'drop' if drop else 'promote'} the challenger")
    with suppress(InUseError):
        LiveModel.open(state).close()


@command(commands, "tdlg audit --state live > audit.jsonl")
def audit(*, state: Path) -> None:
    """List what reviewers did, as JSON lines, the oldest first: all that the log still has. It works beside a service.

    Parameters
    ----------
    state : DIR
        Folder of the state.
    """
    from tdlg.live.review import audited

    for entry in audited(state):
        typer.echo(json.dumps(entry, ensure_ascii=False))


@command(commands, "tdlg drift --state live")
def drift(*, state: Path) -> None:
    """Show how far the last week is from what the model was fitted on. It works beside a service, and reads its log.

    Each line is a quantity with its population stability index, the threshold that chance alone reaches in one week of a
    thousand for all quantities together, and where most has changed. A quantity above its threshold says: `tdlg refit`.

    Parameters
    ----------
    state : DIR
        Folder of the state.
    """
    from tdlg.live.drift import drift_of
    from tdlg.live.replay import read_state

    with working("reading the state"):
        found = drift_of(read_state(state))
    rows = [["", "index", "threshold", "", ""]]
    for one in found["quantities"]:
        figures = ["-" if one[name] is None else f"{one[name]:.3f}" for name in ("value", "threshold")]
        rows.append([one["of"], *figures, "drift" if one["drifts"] else "", one["words"]])
    typer.echo(aligned(rows))
    if found["expected_precision"] is not None:
        note(
            f"expected precision of the last week's {count(found['alerts'], 'alert')}: {found['expected_precision']:.0%}"
        )
    note("the last week drifts from the fit: run `tdlg refit`" if found["refit"] else "no drift")
