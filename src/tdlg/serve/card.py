"""The card of the model in place, made by a process of its own, since a copy of the model is fitted for it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from tdlg.exceptions import TdlgError
from tdlg.serve.reader import ONE_THREAD

__all__ = ["Cards", "NoCardError"]

COMMAND = """
import json, os, sys
getattr(os, 'nice', int)(10)
from tdlg.persist.model import load_model
model = load_model(sys.argv[1])
card = model.card(label_name=getattr(model, "label_name_", None), alerts_per_day=float(sys.argv[2]))
json.dump([card.to_json(), card.to_html()], sys.stdout)
"""


class NoCardError(TdlgError):
    """There is no card of the model in place."""


class Cards:
    """The card of the latest model that was asked for, as JSON and as a page; one is made at a time."""

    def __init__(self) -> None:
        self._of, self._making = "", asyncio.Lock()
        self._card: tuple[str, str] | None = None

    async def card(self, model: Any, file: str, alerts_per_day: float) -> tuple[str, str]:
        """The card of the model in a file."""
        if not hasattr(model, "card"):
            raise NoCardError(f"A model card is about a classifier. This is a {type(model).__name__}.")
        async with self._making:
            if self._card is None or self._of != file:
                self._card, self._of = await self._made(file, alerts_per_day), file
            return self._card

    async def _made(self, file: str, alerts_per_day: float) -> tuple[str, str]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", COMMAND, file, str(alerts_per_day)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=os.environ | ONE_THREAD | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        try:
            output, errors = await process.communicate()
        finally:
            if process.returncode is None:  # the service is being stopped
                process.kill()
        if process.returncode:
            lines = errors.decode(errors="replace").strip().splitlines() or ["no reason"]
            raise NoCardError(f"The card cannot be made: {lines[-1]}")
        as_json, page = json.loads(output)
        return as_json, page
