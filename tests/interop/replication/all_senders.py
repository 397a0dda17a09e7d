"""Senders of all protocols, at gateways and straight at the replicas, while something is done to nodes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from types import TracebackType
from typing import Final

from tests.interop.node import Node, Ports
from tests.interop.replication.group import read_all
from tests.interop.rocketmq.failover.senders import Senders
from tests.patience import until

PAUSE_S: Final = 0.1
SETTLED: Final = 3
"""Messages of each sender between two things that are done to nodes."""
DIRECT: Final = ("MQTT QoS 1", "HTTP", "gRPC", "remoting")
"""Senders that have the addresses of all replicas, and try another one when one does not answer. aiocoap is none of them: an
assertion of its own fails, now and then, behind the Reset by which a follower refuses a request."""
WAIT_S: Final = 180.0


class AllSenders:
    """Two loads: by gateways, and at the replicas. A context manager: within it they send."""

    def __init__(self, gateways: Sequence[Node], replicas: Sequence[Node]) -> None:
        self._loads = {
            "by-gateway": Senders(list[Ports](gateways), "by-gateway", PAUSE_S),
            "direct": Senders(list[Ports](replicas), "direct", PAUSE_S, DIRECT),
        }

    def __enter__(self) -> AllSenders:
        for each in self._loads.values():
            each.start()
        self.go_on()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for each in self._loads.values():
            each.end()
        for each in self._loads.values():
            each.stop()

    def go_on(self) -> None:
        """Wait until messages of every sender are acknowledged that it sends from now on. Raises what ended a sender."""
        since_s = time.monotonic()
        loads = self._loads.values()
        until(
            lambda: all(each.each_has_sent_since(since_s, SETTLED) for each in loads), WAIT_S,
            lambda: "; ".join(f"{each.counts()} {each.refusals()}" for each in loads),
        )  # fmt: skip
        for each in loads:
            if each.faults:
                raise each.faults[0]

    def refusals(self) -> str:
        """Why messages were not acknowledged, and how many."""
        return "; ".join(f"{topic}: {each.refusals()}" for topic, each in self._loads.items())

    def acknowledged(self) -> int:
        """How many messages are."""
        return sum(len(each.bodies()) for each in self._loads.values())

    def longest_s(self) -> dict[str, float]:
        """Sender -> the longest time between two acknowledgements: what was sent in between was refused, or waited."""
        return {
            f"{name}, {topic}": max(after.answered_s - before.answered_s for before, after in pairwise(sent))
            for topic, load in self._loads.items() for name, sent in load.sent.items()
        }  # fmt: skip

    def lost(self, leader: Node) -> set[str]:
        """Acknowledged messages that the leader does not have. Nothing may be sent any more."""
        return {
            f"{topic}: {body}" for topic, each in self._loads.items() for body in each.bodies() - set(read_all(leader, topic))
        }
