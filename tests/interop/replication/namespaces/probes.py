"""Senders at each gateway that never wait for an answer before they send the next message: a silence is seen to 50 ms.

A message is a POST of HTTP over connections that are kept. Each has a body of its own and is sent once.
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
import time
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from tests.interop.replication.chaos.history import Sent

TOPIC: Final = "orders"
EVERY_S: Final = 0.05
ANSWER_S: Final = 12.0
CONNECT_S: Final = 2.0
JOIN_S: Final = 30.0

_Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Probe(NamedTuple):
    """A message that was acknowledged: where it was sent, and when, by the monotonic clock."""

    gateway: str
    asked_s: float
    answered_s: float


class Probes:
    """A sender for each gateway, in a thread.

    sent   what was sent, and what was said of it
    acked  what was acknowledged
    """

    def __init__(self, gateways: Mapping[str, str]) -> None:
        """`gateways`: name -> address."""
        self.sent: list[Sent] = []
        self.acked: list[Probe] = []
        self._gateways = gateways
        self._idle: dict[str, list[_Ends]] = {name: [] for name in gateways}
        self._ended = False
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._guarded, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Send no more, and wait for the answers. Raises what ended the senders before."""
        self._ended = True
        self._thread.join(JOIN_S)
        assert not self._thread.is_alive()
        if self._fault is not None:
            raise self._fault

    def longest_s(self, since_s: float, end_s: float, gateways: Collection[str]) -> float:
        """The longest wait at a moment from `since_s` to `end_s` of who sends at all of these gateways.

        One of them has acknowledged what was sent after `end_s`.
        """
        acked = sorted((each.asked_s, each.answered_s) for each in list(self.acked) if each.gateway in gateways)
        longest, served_s = 0.0, math.inf
        for asked_s, answered_s in reversed(acked):
            if asked_s < since_s:
                break
            if asked_s <= end_s:
                longest = max(longest, served_s - asked_s)  # just after this message was sent
            served_s = min(served_s, answered_s)
        return max(longest, served_s - since_s)

    def served_s(self, since_s: float) -> dict[str, float]:
        """Gateway -> seconds from `since_s` to the first acknowledgement of what was sent after it, if there is one."""
        found: dict[str, float] = {}
        for each in reversed(list(self.acked)):  # by the time of the answer
            if each.answered_s < since_s:
                break
            if each.asked_s >= since_s:
                found[each.gateway] = each.answered_s - since_s
        return found

    def _guarded(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:
            self._fault = error
            raise

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            number, due = 0, time.monotonic()
            while not self._ended:
                for name in self._gateways:
                    tasks.create_task(self._send(name, number))
                number, due = number + 1, due + EVERY_S
                await asyncio.sleep(max(due - time.monotonic(), 0.0))
        for ends in self._idle.values():
            for _, writer in ends:
                writer.close()

    async def _send(self, name: str, number: int) -> None:
        body, asked_s = f"{name}/{number}", time.monotonic()
        try:
            async with asyncio.timeout(ANSWER_S):
                place = await self._post(name, body.encode())
        except (OSError, EOFError, TimeoutError, ValueError):
            place = None
        self.sent.append(Sent(body, "", number, place, place is not None))
        if place is not None:
            self.acked.append(Probe(name, asked_s, time.monotonic()))

    async def _post(self, name: str, body: bytes) -> tuple[int, int] | None:
        """(queue, offset) of the answer; None: it is a refusal."""
        address = self._gateways[name]
        idle = self._idle[name]
        while idle and _has_ended(idle[-1][0]):  # to send there would be a wait that is the sender's own
            idle.pop()[1].close()
        if idle:
            reader, writer = idle.pop()
        else:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_connection(address, 8080)
        try:
            head = f"POST /v1/topics/{TOPIC}/messages HTTP/1.1\r\nHost: {address}\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            status, content, is_kept = await _answer(reader)
        except BaseException:
            writer.close()
            raise
        if is_kept:
            idle.append((reader, writer))
        else:
            writer.close()
        if status != 201:
            return None
        told = json.loads(content)
        return int(told["queue"]), int(told["offset"])


def _has_ended(reader: asyncio.StreamReader) -> bool:
    return reader.at_eof() or reader.exception() is not None


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes, bool]:
    """Status, content, and whether the connection stays."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
    fields = dict(line.split(": ", 1) for line in head[1:] if ": " in line)
    content = await reader.readexactly(int(fields.get("content-length", "0")))
    return int(head[0].split(" ")[1]), content, fields.get("connection", "") != "close"
