"""Retries of reads, for a bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from gateway.client.answer import AccessError, ClientError, RejectedError, UnreachableError
from gateway.client.request import RETRIED_CODES

_Answer = TypeVar("_Answer")


class Retries:
    """Retries with backoff.

    retry_s      how long, in seconds
    nameserver   of the client, for the text of errors
    """

    def __init__(self, retry_s: float, nameserver: str) -> None:
        self._retry_s = retry_s
        self._nameserver = nameserver

    def run(self, what: str, ask: Callable[[], _Answer]) -> _Answer:
        """Call `ask` until it returns, for `retry_s` with backoff: after lost connections and codes of RETRIED_CODES."""
        end = time.monotonic() + self._retry_s
        pause = 0.0
        while True:
            try:
                return ask()
            except (OSError, UnreachableError, RejectedError) as error:
                if isinstance(error, RejectedError) and (isinstance(error, AccessError) or error.code not in RETRIED_CODES):
                    raise
                if time.monotonic() + pause >= end:
                    if isinstance(error, ClientError):
                        raise
                    raise UnreachableError(
                        f"{what}: no answer within {self._retry_s:g} s (nameserver {self._nameserver}): {error}"
                    ) from error
                time.sleep(pause)
                pause = min(pause * 2 or 0.05, 1.0)
