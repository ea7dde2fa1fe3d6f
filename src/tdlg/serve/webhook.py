"""A webhook: new and decided alerts are sent to an address, signed, in their order, at least once."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tdlg.atomic import new_file
from tdlg.exceptions import ParameterError
from tdlg.live.cases import MOST_ALERTS
from tdlg.serve.cases import line_of, open_cases
from tdlg.serve.feed import changes_since
from tdlg.serve.http import as_json
from tdlg.serve.worker import StoppingError, Worker

if TYPE_CHECKING:
    from tdlg.live.model import LiveModel

__all__ = ["SIGNATURE", "Webhook", "check_webhook"]

logger = logging.getLogger(__name__)

SIGNATURE = "X-Tdlg-Signature"  # sha256= and the HMAC of the body in hexadecimal digits
MOST_SENT = 100  # changes in a request
EVERY = 1.0  # seconds between looks
LONGEST_WAIT = 300.0  # seconds until a failed request is tried again
TIMEOUT = 10.0  # seconds for a request


def check_webhook(url: str | None, secret: str | None) -> None:
    """Refuse an address that cannot be one, or that comes without a secret."""
    if url is None:
        return
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise ParameterError(
            f"The webhook must be an address of http or https. Got {url!r} instead.", parameter="webhook"
        )
    if secret is None:
        raise ParameterError(
            "A webhook needs a secret, by which its receiver knows it.", parameter="webhook_secret_file"
        )


class Webhook:
    """Sends what happens to alerts, from the position in `file` on, which holds the number of the last change received.

    It is a task of the event loop, and its requests are made in a thread. A request that fails is made again, later and
    later, and those after it wait: so nothing is left out unless more than 10,000 changes have come meanwhile, which is
    logged. A crash between an answer and the file sends a request again.
    """

    def __init__(self, worker: Worker, url: str, secret: str, file: Path) -> None:
        self._worker, self._url, self._secret, self._file = worker, url, secret.encode(), file

    async def run(self) -> None:
        """Send until the task is cancelled or the service stops."""
        position, wait = self._position(), EVERY
        with suppress(StoppingError):
            while True:
                body = await self._worker.ask(lambda live, since=position: _content(live, since))  # type: ignore[misc]
                if body["missed"]:
                    logger.warning(
                        "%d changes were not sent to the webhook, and are not kept any more.", body["missed"]
                    )
                if not body["changes"]:
                    position, wait = min(position, body["sequence"]), EVERY
                elif await asyncio.to_thread(self._send, as_json(body)):
                    position, wait = body["changes"][-1]["sequence"], 0.0
                    await asyncio.to_thread(self._note, position)
                else:
                    wait = min(LONGEST_WAIT, 2 * max(wait, EVERY))
                await asyncio.sleep(wait)

    def _send(self, body: bytes) -> bool:
        signature = hmac.new(self._secret, body, hashlib.sha256).hexdigest()
        headers = {"Content-Type": "application/json", SIGNATURE: f"sha256={signature}"}
        try:
            request = urllib.request.Request(self._url, body, headers)
            with urllib.request.build_opener(_NoRedirect).open(request, timeout=TIMEOUT):
                return True
        except (OSError, ValueError, urllib.error.HTTPError) as error:
            logger.warning("The webhook was not received: %s. It is tried again.", error)
            return False

    def _position(self) -> int:
        try:
            return int(json.loads(self._file.read_bytes())["sequence"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    def _note(self, position: int) -> None:
        with suppress(OSError), new_file(self._file) as file:
            file.write(json.dumps({"sequence": position}).encode())


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """What is signed for one address goes to no other."""

    def redirect_request(self, *args: Any) -> None:
        """Refuse, so that it is an error."""


def _content(live: LiveModel, since: int) -> dict[str, Any]:
    """The next changes, with the alerts as they are now, and the same in words."""
    found = changes_since(live, since)
    changes = found["changes"][:MOST_SENT]
    ids = {change["id"] for change in changes}
    listed = live.alerts("all", MOST_ALERTS, explained=False, where=lambda one: one.id in ids) if ids else []
    known = {alert.id: alert for alert in listed}
    names = ("src", "dst", "time", "score", "label", "by", "at", "dismissal", "assignee", "model")
    told = [
        {**change, **({name: getattr(known[change["id"]], name) for name in names} if change["id"] in known else {})}
        for change in changes
    ]
    cases = open_cases(live) if known else []
    text = "\n".join(line_of(alert, cases) for alert in known.values())
    return {**found, "changes": told, "text": text}
