"""Producers of transactions: each half message is sent once, decided at once or when a leader asks, and never otherwise."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

from domain.limits import MILLISECOND_NS
from domain.ports import Timer
from protocols.remoting.wire import frame
from tests.simulation.transactor import COMMIT, GROUP, HEARTBEAT, ROLLBACK, Transactor

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster

ANSWER_MS = 8_000
"""An answer that takes longer is taken for lost: the half message may be stored, and a leader asks about it then."""
BEAT_MS = 30_000


class Deals:
    """What the producers of one group have decided.

    decisions   message -> what is decided, from before it is sent on
    begun       message -> the newest leader epoch when its half message was acknowledged
    followed    questions about half messages that an earlier leader has acknowledged
    """

    def __init__(self) -> None:
        self.decisions: dict[str, int] = {}
        self.begun: dict[str, int] = {}
        self.followed = 0

    def is_rolled_back(self, body: str) -> bool:
        """True for a message that nobody may ever see."""
        return self.decisions.get(body) == ROLLBACK


class ClusterTransactor(Transactor):
    """A producer of a cluster.

    certain   True: it answers every question; else some are forgotten
    """

    certain = False

    def __init__(self, cluster: Cluster, name: str, chance: random.Random, topic: str, count: int, deals: Deals) -> None:
        super().__init__(
            name, cluster.clock, chance, lambda client: cluster.dial("remoting", client), topic, count, deals.decisions
        )
        self._cluster = cluster
        self._deals = deals
        self._sent = ""
        self._overdue: Timer | None = None
        self._pausing = False

    @property
    def done(self) -> bool:
        """Every half message is acknowledged, or given up."""
        return not self._open and not self._sent

    def ready(self) -> None:
        super().ready()
        link = self.link
        self.clock.call_at(
            self.clock.monotonic_ns() + BEAT_MS * MILLISECOND_NS, lambda: self._beat() if self.link is link else None
        )  # fmt: skip

    def _beat(self) -> None:
        body = {"clientID": self.name, "producerDataSet": [{"groupName": GROUP}], "consumerDataSet": []}
        self.ask("heartbeat", HEARTBEAT, {}, json.dumps(body).encode())

    def lost(self) -> None:
        self._end("")
        super().lost()

    def _go_on(self) -> None:
        if not self._open or self.link is None or self._sent or self._pausing:
            return
        message = self._open[0]
        self.decisions[message] = self.chance.choice((COMMIT, COMMIT, ROLLBACK))
        self._cluster.ledger.sent[message] = 1
        super()._go_on()
        self._open.remove(message)
        self._sent = message
        due_ns = self.clock.monotonic_ns() + ANSWER_MS * MILLISECOND_NS
        self._overdue = self.clock.call_at(due_ns, lambda: self._end(message))

    def _end(self, message: str) -> None:
        """The fate of the half message under way is known, or it is given up. "": whichever it is."""
        if message not in ("", self._sent) or not self._sent:
            return
        self._sent = ""
        if self._overdue is not None:
            self._overdue.cancel()
        self._pausing = True
        self.clock.call_at(self.clock.monotonic_ns() + self.chance.randrange(1, 3_000) * MILLISECOND_NS, self._paused)

    def _paused(self) -> None:
        self._pausing = False
        self._go_on()

    def answered(self, about: object, answer: frame.Frame) -> None:
        message = str(about)
        if message != self._sent:
            return
        self._end(message)
        if answer.code != 0:
            return
        cluster = self._cluster
        cluster.ledger.note(f"{self.clock.monotonic_ns()} {self.name} has half of {message}")
        self._deals.begun[message] = max(cluster.checkers.epochs)
        if self.decisions[message] == COMMIT:
            cluster.ledger.acknowledged[message] = self.clock.monotonic_ns()
        fields = answer.fields() or {}
        if self.chance.random() < 0.6:
            self._decide(message, fields["queueOffset"], str(int(fields["msgId"][-16:], 16)))

    def _answers(self) -> bool:
        return self.certain or super()._answers()

    def _check(self, request: frame.Frame) -> None:
        before = dict(self.asked)
        super()._check(request)
        for message in self.asked:
            if self.asked[message] != before.get(message, 0):
                self._cluster.ledger.note(f"{self.clock.monotonic_ns()} {self.name} is asked about {message}")
                self._deals.followed += self._deals.begun.get(message, 1 << 60) < max(self._cluster.checkers.epochs)
