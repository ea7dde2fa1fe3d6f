"""The token of a service: how clients prove that they know it, and the cookie of a desk that has proved it."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import stat
from collections import Counter
from pathlib import Path

from tdlg.exceptions import ParameterError, warn
from tdlg.serve.refusals import RefusedError

__all__ = ["COOKIE", "Token", "read_token"]

logger = logging.getLogger(__name__)

COOKIE = "tdlg_desk"
LIFETIME = 30 * 86_400  # seconds until a desk asks for the token again
SHORTEST = 16  # characters
WRONG_PER_MINUTE = 20  # tokens of one client
MOST_CLIENTS = 10_000  # whose wrong tokens are counted apart
MAKE_ONE = "Make one, for example with: (umask 077; openssl rand -hex 32 > token)"


def read_token(path: str | os.PathLike[str]) -> str:
    """Read the token from a file.

    Parameters
    ----------
    path
        The file. Space around the token is left out.
    """
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        token = ""
    if len(token) < SHORTEST or not (token.isascii() and token.isprintable()) or " " in token:
        raise ParameterError(
            f"{path}: a token has at least {SHORTEST} printable characters of ASCII, in one line. {MAKE_ONE}",
            parameter="token_file",
        )
    if os.name == "posix" and os.stat(path).st_mode & (stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH):
        warn(f"{path}: others on this machine can read or change the token.", "Run: chmod 600 on the file.")
    return token


class Token:
    """Checks what clients give; comparing takes the same time however much of it is right.

    Parameters
    ----------
    secret
        The token.
    """

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self._wrong: Counter[str] = Counter()  # by client, in this minute
        self._minute_ends = 0.0

    def check(self, given: str, client: str, now: float) -> bool:
        """Whether this is the token. A client that gives many wrong ones is refused and logged, but the right one passes.

        So guesses are noticed rather than prevented, since clients behind one proxy share an address: a token must be long.
        """
        if hmac.compare_digest(given.encode(errors="replace"), self._secret):
            return True
        if now > self._minute_ends:
            self._wrong.clear()
            self._minute_ends = now + 60.0
        client = client if client in self._wrong or len(self._wrong) < MOST_CLIENTS else "others"
        self._wrong[client] += 1
        if self._wrong[client] > WRONG_PER_MINUTE:
            raise RefusedError(429, "Too many wrong tokens. Wait a minute.", {"retry-after": "60"})
        if self._wrong[client] == WRONG_PER_MINUTE:
            logger.warning("%d requests from %r had a wrong token within a minute.", WRONG_PER_MINUTE, client)
        return False

    def cookie(self, now: float) -> str:
        """What the cookie of a desk holds: when it ends, and a proof that the service made it. Not the token."""
        end = str(int(now) + LIFETIME)
        return f"{end}.{self._proof(end)}"

    def accepts_cookie(self, value: str, now: float) -> bool:
        """Whether the service made this cookie, and it has not ended."""
        end, _, proof = value.partition(".")
        made_here = hmac.compare_digest(proof.encode(errors="replace"), self._proof(end).encode())
        return made_here and int(end) > now

    def _proof(self, end: str) -> str:
        return hmac.new(self._secret, b"tdlg desk until " + end.encode(errors="replace"), hashlib.sha256).hexdigest()
