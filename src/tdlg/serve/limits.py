"""How much the service accepts at once."""

from __future__ import annotations

from dataclasses import dataclass, fields

from tdlg.checks import check_count
from tdlg.exceptions import ParameterError

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """How much the service accepts at once; what is beyond is refused with a status that says so.

    Attributes
    ----------
    body
        Bytes of a request, 8 MiB by default: about 40,000 events as JSON.
    events
        Events or labels of a request. A turn of 10,000 events takes a fraction of a second, in which others wait.
    queue
        Events and labels that may wait for their turn; beyond it a request gets 429.
    batch
        Events and labels that are taken in one turn, with one sync of the log. A larger request is one turn of its own.
    desks
        Pages that may listen for changes at the same time.
    connections
        Connections that may be open at the same time, those of the desks included. One without a request is closed when
        another needs its place.
    seconds
        Time in which a request must have arrived whole.
    head_seconds
        Time in which the head of a request must have arrived, from the start of the connection or the first byte of it.
    """

    body: int = 8 << 20
    events: int = 10_000
    queue: int = 20_000
    batch: int = 2_000
    desks: int = 32
    connections: int = 1_000
    seconds: int = 30
    head_seconds: int = 10

    def __post_init__(self) -> None:
        for field in fields(self):
            check_count("Limits", field.name, getattr(self, field.name), 1)
        if self.queue < self.events:
            raise ParameterError(
                f"The 'queue' parameter of Limits must be at least 'events', {self.events}: a larger request would never be "
                f"taken. Got {self.queue} instead.",
                f"Pass queue={self.events!r} or more.",
                parameter="queue",
            )
