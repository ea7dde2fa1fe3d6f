"""The live demo: synthetic payments are played into a service, fast, while somebody and a colleague look at the desk."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.datasets.payments import Payments, make_payments
from tdlg.live.model import LiveModel
from tdlg.live.review import new_person
from tdlg.models.propagation import PropagationClassifier
from tdlg.serve.service import Service

__all__ = ["fit_on_past", "run_live_demo", "steps"]

PAYMENTS = 30_000  # 166 per day
FITTED = np.datetime64("2025-05-01", "s")  # the model knows what was known then
ALERTS_PER_DAY = 3
SECONDS_PER_DAY = 8.0
REQUEST_EVERY = 0.1  # seconds between requests
HEADERS = {"content-type": "application/json"}
COLLEAGUE = "lee"  # who reviews too, played by the demo
EXPLORED = 2  # events a day for random review
CHANGED, FACTOR = np.datetime64("2025-06-01", "s"), 1.8  # from then on amounts are larger, which the drift shows
LOOK_EVERY = 40  # steps between two cases that the colleague takes
REFIT_EVERY = "7d"  # of the payments: then a challenger is fitted
RULES = """# Rules beside the model: an event for which all conditions of one hold is an alert.
# After a change: tdlg rules rules.toml --state {state}, or the tab Model of the desk.

[lists]
watched = ["terminal 13", "terminal 77"]

[[rule]]
name = "very large"
all = ["amount > 400"]

[[rule]]
name = "many large ones in a day"
all = ["count(src, 1d) >= 3", "sum(amount, src, 1d) > 500"]

[[rule]]
name = "first payment at a watched terminal"
all = ["dst in watched", "first contact (90d)", "score > 0.01"]
"""


class Due(NamedTuple):
    """What happens in one step: payments, and labels that become known."""

    events: list[dict[str, Any]]
    labels: list[dict[str, Any]]


def run_live_demo(
    *,
    port: int = 0,
    random_state: int = 0,
    seconds_per_day: float = SECONDS_PER_DAY,
    n_payments: int = PAYMENTS,
    say: Callable[[str], object] = print,
    show: Callable[[str], object] | None = None,
    stay: bool = True,
) -> None:
    """Fit a model on four months of synthetic payments, and play the next two months into a live service.

    A day of payments takes `seconds_per_day`; `say` gets each line of text, `show` the address of the desk. With `stay` the
    service runs on until it is interrupted.
    """
    payments = make_payments(n_payments, random_state=random_state)
    say(f"Fitting a model on the payments before {str(FITTED)[:10]} ...")
    model = fit_on_past(payments, random_state)
    with (
        TemporaryDirectory() as place,
        LiveModel.open(
            folder := str(Path(place) / "live"), model, alerts_per_day=ALERTS_PER_DAY, explore=EXPLORED
        ) as live,
        Service(live, port=port) as service,
    ):
        say(f"desk: {service.url} (Ctrl-C stops)\n")
        say(f"A day of payments takes {seconds_per_day:g} seconds. Labels come days to weeks after their payment.")
        (Path(folder).parent / "rules.toml").write_text(RULES.format(state=folder))
        live.act({"do": "rules", "text": RULES.format(state=folder), "file": "rules.toml"})
        live.refit_every(REFIT_EVERY)
        say(
            f"The state and rules.toml are in {Path(folder).parent}. A challenger is fitted every {REFIT_EVERY}; see Model."
        )
        say(
            f"{EXPLORED} payments a day are no alerts, but drawn for random review. From {str(CHANGED)[:10]} on amounts are"
        )
        say(f"{FACTOR:g} times as large: the desk tells it under Drift.")
        tokens = dict(_added(live, name, role) for name, role in (("anna", "analyst"), (COLLEAGUE, "lead")))
        say(
            f"Two people review: {COLLEAGUE}, whom the demo plays, and anna. To be anna, sign in at the desk with the token"
        )
        say(f"{tokens['anna']}\n")
        if show is not None:
            show(service.url)
        _play(service.url, payments, seconds_per_day, say, tokens[COLLEAGUE])
        if stay:
            say("All payments were played. The desk stays open until Ctrl-C.")
            service.wait()


def fit_on_past(payments: Payments, random_state: int) -> PropagationClassifier:
    """Fit a model on the first four months, with the labels that were known at their end."""
    is_past = payments.edges.time < FITTED
    known = payments.known_at(FITTED)[is_past]
    label_time = np.where(known.labelled, payments.label_time[is_past], np.datetime64("NaT"))
    return PropagationClassifier(setting="stream", random_state=random_state).fit(known, label_time=label_time)


def _added(live: LiveModel, name: str, role: str) -> tuple[str, str]:
    """Add a reviewer; the name and the token."""
    action, token = new_person(name, role)
    live.act(action)
    return name, token


def _play(url: str, payments: Payments, seconds_per_day: float, say: Callable[[str], object], token: str) -> None:
    connection = http.client.HTTPConnection(url.removeprefix("http://").rstrip("/"), timeout=60)
    start, scenario, told = time.monotonic(), payments.scenario, ""
    for step, due in zip(count(), steps(payments, seconds_per_day), strict=False):
        for answer in _post(connection, "/score", due.events):
            if answer.get("alert"):
                event = due.events[[event["id"] for event in due.events].index(answer["id"])]
                truth = "a fraud" if scenario[int(answer["id"].split()[1])] else "not a fraud"
                say(
                    f"{event['time'][:16]}  {event['src']} → {event['dst']}: score {answer['score']:.3f}, in truth {truth}"
                )
        _post(connection, "/labels", due.labels)
        if step % (LOOK_EVERY if seconds_per_day else 1) == 0:
            _review(connection, token, scenario, step)
            drifts = ", ".join(one["of"] for one in _get(connection, "/drift", token)["quantities"] if one["drifts"])
            if drifts != told:
                say(f"Drift of {drifts}: refit." if drifts else "No drift any more.")
            told = drifts
        time.sleep(max(0.0, start + step * REQUEST_EVERY - time.monotonic()) if seconds_per_day else 0.0)
    connection.close()


def steps(payments: Payments, seconds_per_day: float) -> Iterator[Due]:
    """The payments after four months, and the labels that become known: ten steps a second, or one a day if it is 0."""
    days = REQUEST_EVERY / seconds_per_day if seconds_per_day else 1.0
    played = np.flatnonzero(payments.edges.time >= FITTED)
    at = _step_of(payments.edges.time[played], days)
    known_at = _step_of(payments.label_time[played], days)
    for step in range(int(at.max()) + 1):
        yield Due(
            [_event(payments, k) for k in played[at == step].tolist()],
            [_label(payments, k) for k in played[known_at == step].tolist()],
        )


def _step_of(times: NDArray[np.datetime64], days: float) -> NDArray[np.int64]:
    return ((times - FITTED) / np.timedelta64(1, "D") / days).astype(np.int64)


def _event(payments: Payments, k: int) -> dict[str, Any]:
    edges = payments.edges
    assert edges.features is not None
    ends = {"src": str(edges.src[k]), "dst": str(edges.dst[k]), "time": str(edges.time[k])}
    amount = float(edges.features[k, 0]) * (FACTOR if edges.time[k] >= CHANGED else 1.0)
    return {"id": f"payment {k}", **ends, "amount": round(amount, 2)}


def _label(payments: Payments, k: int) -> dict[str, Any]:
    return {"id": f"payment {k}", "label": int(payments.scenario[k] > 0), "time": str(payments.label_time[k])}


def _review(connection: http.client.HTTPConnection, token: str, scenario: NDArray[Any], step: int) -> None:
    """What the colleague does with the highest case that nobody has: hand it to anna, or decide it with what is true."""
    for case in _get(connection, "/cases?assignee=-&limit=1", token)["cases"]:
        changes: list[dict[str, Any]] = [{"id": one["id"], "version": one["version"]} for one in case["alerts"]]
        for change in changes:
            if step // LOOK_EVERY % 3 == 1:
                change |= {"assignee": "anna", "note": "Please have a look: I know this one."}
            elif scenario[int(change["id"].split()[1])]:
                change |= {"label": 1, "note": "Called: it was not them."}
            else:
                change |= {"label": 0, "reason": "confirmed by the customer"}
        _post(connection, "/decisions", changes, authorization=f"Bearer {token}")


def _get(connection: http.client.HTTPConnection, path: str, token: str) -> dict[str, Any]:
    connection.request("GET", path, headers={"authorization": f"Bearer {token}"})
    answer: dict[str, Any] = json.loads(connection.getresponse().read())
    return answer


def _post(
    connection: http.client.HTTPConnection, path: str, items: list[dict[str, Any]], **headers: str
) -> list[dict[str, Any]]:
    if not items:
        return []
    connection.request("POST", path, json.dumps(items), HEADERS | headers)
    answers: list[dict[str, Any]] = json.loads(connection.getresponse().read())
    return answers
