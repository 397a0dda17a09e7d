"""Members of consumer groups (POP): they also use receipts that are old, and check the order of what is ordered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from domain.limits import MILLISECOND_NS
from protocols.remoting.wire import frame
from tests.simulation.consumer import Popped, popped
from tests.simulation.ledger import Ledger
from tests.simulation.sdk import ACK, Member

OLD = "old"


@final
@dataclass(slots=True)
class GroupHistory:
    """What the members of one group have done.

    old      "queue/offset" -> the receipt of a lease that its member has let go
    asked    "queue/offset" of messages that were acknowledged by their present receipt, answered or not
    first    queue -> bodies in the order of their first deliveries
    """

    old: dict[str, str] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    first: dict[int, list[str]] = field(default_factory=dict)


class ClusterMember(Member):
    """A member that lets some leases go, and then acknowledges by their receipts when the messages have been leased again."""

    history: GroupHistory

    def _take(self, answer: frame.Frame) -> None:
        fields = answer.fields() or {}
        until_ms = int(fields["popTime"]) + int(fields["invisibleTime"])
        for one in popped(answer):
            record = one.record
            name = f"{record.queue_id}/{record.queue_offset}"
            self._ledger.note(f"{self.clock.monotonic_ns()} {self.name} got {name} until {until_ms}")
            if self.clock.wall_ms() + 750 > until_ms:
                continue  # it comes when its lease is over, or nearly
            self._ledger.delivered(name, self.name, self.clock.wall_ms(), until_ms, self._leases_survive)
            self.looked_at(one)
            old = self.history.old.pop(name, "")
            if old and old != one.receipt:
                self._settle(one, name, old, OLD)
            if self.chance.random() < 0.85:
                self._settle_later(one, name, until_ms)
            else:
                self.history.old[name] = one.receipt

    def looked_at(self, one: Popped) -> None:
        """A message has been delivered."""

    def _settle_later(self, one: Popped, name: str, until_ms: int) -> None:
        after_ms = self.chance.randrange(1, 300)
        if self.clock.wall_ms() + after_ms + 750 < until_ms:
            self.clock.call_at(
                self.clock.monotonic_ns() + after_ms * MILLISECOND_NS, lambda: self._settle(one, name, one.receipt, name)
            )  # fmt: skip

    def _settle(self, one: Popped, name: str, receipt: str, about: str) -> None:
        if about is not OLD:
            self.history.asked.add(name)
        fields = {
            "consumerGroup": self._group, "topic": self._topic, "queueId": str(one.record.queue_id),
            "offset": str(one.record.queue_offset), "extraInfo": receipt,
        }  # fmt: skip
        self.ask((about,), ACK, fields)

    def _acknowledged(self, name: str, answer: frame.Frame) -> None:
        if name is not OLD:
            super()._acknowledged(name, answer)


class OrderedMember(ClusterMember):
    """A member of a group in order: of a queue it gets nothing behind a message that is not settled."""

    order = True

    def looked_at(self, one: Popped) -> None:
        """Check what is before this message in its queue."""
        record = one.record
        body = record.body.decode().rstrip(".")
        first = self.history.first.setdefault(record.queue_id, [])
        if body not in first:
            first.append(body)


class ClusterLedger(Ledger):
    """The ledger of one group of a cluster.

    early_ms   how much earlier than said a lease may end: a leader's clock may be ahead
    """

    early_ms = 0

    def delivered(self, name: str, member: str, now_ms: int, until_ms: int, leases_survive: bool) -> None:
        """Ledger.delivered."""
        Ledger.delivered(self, name, member, now_ms + self.early_ms, until_ms, leases_survive)
