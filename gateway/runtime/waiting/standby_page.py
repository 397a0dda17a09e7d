"""The metrics page of a node that does not serve clients: a thread asks the loop for it, within a bounded time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import TimeoutError as LateError
from typing import Final, NamedTuple, final

from gateway.observe.metrics import CONTENT_TYPE, Snapshot, pieces, process_families

LOOP_S: Final = 5.0
"""Seconds in which the loop answers; while it opens a log it has no time."""


class Question(NamedTuple):
    """A request for the page: who sent it, and the host name that it used.

    authorization   its field Authorization; "": it has none
    peer            address of the client, without port
    host            its field Host; "": it has none
    """

    authorization: str
    peer: str
    host: str


class Refusal(NamedTuple):
    """Why there is no page: a status of HTTP, and a line of text."""

    status: int
    text: str


Ask = Callable[[Question], Snapshot | Refusal]
"""Called in the loop: the snapshot that a client may see, or why it may not."""


@final
class StandbyPage:
    """Makes the page in the threads that ask for it, one at a time: it is small, as nobody is served."""

    def __init__(self, ask: Ask, loop: asyncio.AbstractEventLoop) -> None:
        self._ask = ask
        self._loop = loop
        self._one = threading.Lock()

    def read(self, question: Question) -> tuple[int, str, bytes]:
        """(status, content type, body). Not called in the loop's thread."""
        with self._one:
            asking = asyncio.run_coroutine_threadsafe(self._asked(question), self._loop)
            try:
                found = asking.result(LOOP_S)
            except LateError:
                asking.cancel()
                found = Refusal(503, "the node is busy: it reads its log")
            if isinstance(found, Refusal):
                return found.status, "text/plain; charset=utf-8", f"{found.text}\n".encode()
            return 200, CONTENT_TYPE, b"".join(pieces(found, process_families()))

    async def _asked(self, question: Question) -> Snapshot | Refusal:
        return self._ask(question)
