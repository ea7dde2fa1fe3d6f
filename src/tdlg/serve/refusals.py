"""What is wrong with a request, as a status and words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["RefusedError"]


class RefusedError(Exception):
    """A request that is not answered.

    Parameters
    ----------
    status
        The status of HTTP.
    message
        What is wrong and what to do.
    headers
        Headers of the response.
    details
        What the message is about, such as the id or the field.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None, **details: Any) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.error = {"message": message, **details}
