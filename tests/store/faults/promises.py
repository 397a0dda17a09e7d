"""What a store has promised: a list of events, in the order in which callers asked and were answered.

A crash is checked against the events before it: `Promises.until(n)` folds the first n into what must hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Place = tuple[str, str, int]
"""(group, topic, queue id)"""


@dataclass(slots=True)
class Sent:
    """One message, whose body no other one has.

    offset      its queue offset, -1 while it is not acknowledged
    flushed     acknowledged at `flushed`, else at `page`
    due_ms      when it is to be delivered, 0: at once
    decision    of a half message: "" none yet, else commit or rollback; None: no half message
    decided     the decision is acknowledged
    stored_ms   when it was acknowledged
    life        how often its topic had been deleted when it was sent
    """

    topic: str
    queue_id: int
    flushed: bool
    life: int
    due_ms: int = 0
    decision: str | None = None
    decided: bool = False
    offset: int = -1
    stored_ms: int = 0

    @property
    def acknowledged(self) -> bool:
        return self.stored_ms > 0

    @property
    def hidden(self) -> bool:
        """Its offset in its own queue is not known by its answer: a timer, or a half message."""
        return self.due_ms > 0 or self.decision is not None


@dataclass(slots=True)
class Value:
    """One stored value: what was acknowledged last, and what was asked for since; None is no value."""

    acknowledged: object = None
    asked: list[object] = field(default_factory=list)

    def may_be(self) -> list[object]:
        return [self.acknowledged, *self.asked]


@dataclass(slots=True)
class Expected:
    """What must hold.

    sent        body -> message
    topics      name -> whether it is there
    lives       name -> number of acknowledged deletions
    dying       topics whose deletion was asked for and not answered
    values      (space, key) -> state value
    positions   place -> committed position
    settled     (place, offset) -> True when it is acknowledged, and no power failure has perhaps lost it since
    leased      (place, offset) -> end of the lease, epoch ms
    hidden      True when records were unreadable for a time: these are given to nobody for a while
    """

    sent: dict[bytes, Sent] = field(default_factory=dict)
    topics: dict[str, Value] = field(default_factory=dict)
    lives: dict[str, int] = field(default_factory=dict)
    dying: set[str] = field(default_factory=set)
    values: dict[tuple[str, bytes], Value] = field(default_factory=dict)
    positions: dict[Place, Value] = field(default_factory=dict)
    settled: dict[tuple[Place, int], bool] = field(default_factory=dict)
    leased: dict[tuple[Place, int], int] = field(default_factory=dict)

    hidden: bool = False

    def gone(self, sent: Sent) -> bool:
        """True when the message's topic was deleted since, acknowledged."""
        return sent.life < self.lives.get(sent.topic, 0)

    def may_be_gone(self, sent: Sent) -> bool:
        """True when the deletion of the message's topic was asked for."""
        return self.gone(sent) or sent.topic in self.dying


class Promises:
    """The events of all lives of one store. `events`: those of its earlier lives."""

    def __init__(self, events: Sequence[tuple[str, object, object]] = ()) -> None:
        self.events = list(events)

    def note(self, kind: str, key: object, value: object = None) -> None:
        self.events.append((kind, key, value))

    def until(self, count: int = -1) -> Expected:
        """What must hold after the first `count` events, after all by default."""
        expected = Expected()
        for kind, key, value in self.events if count < 0 else self.events[:count]:
            _apply(expected, kind, key, value)
        return expected


def _apply(expected: Expected, kind: str, key: object, value: object) -> None:
    match kind, key, value:
        case "send", bytes(body), (str(topic), int(queue_id), bool(flushed), int(due_ms), (str() | None) as decision):
            life = expected.lives.get(topic, 0)
            expected.sent[body] = Sent(topic, queue_id, flushed, life, due_ms, decision)
        case "stored", bytes(body), (int(offset), int(now_ms)):
            expected.sent[body].offset, expected.sent[body].stored_ms = offset, now_ms
        case "decide", bytes(body), str(decision):
            expected.sent[body].decision = decision
        case "decided", bytes(body), int(now_ms):
            expected.sent[body].decided, expected.sent[body].stored_ms = True, now_ms
        case "lost", bytes(body), _:
            expected.sent.pop(body)
        case "topic", str(name), bool(there):
            expected.topics.setdefault(name, Value()).asked.append(there)
            if not there:
                expected.dying.add(name)
        case "topic-done", str(name), bool(there):
            _settle_value(expected.topics[name], there)
            if not there:
                expected.dying.discard(name)
                expected.lives[name] = expected.lives.get(name, 0) + 1
        case "topic-refused", str(name), bool(there):
            _withdraw(expected.topics[name], there)
            if not there:
                expected.dying.discard(name)
        case "topic-is", str(name), bool(there):
            if not there and expected.topics[name].acknowledged:
                expected.lives[name] = expected.lives.get(name, 0) + 1
            expected.topics[name] = Value(there)
            expected.dying.discard(name)
        case (("put" | "position"), _, _):
            _values(expected, kind, key).asked.append(value)
        case (("put-done" | "position-done"), _, _):
            _settle_value(_values(expected, kind.removesuffix("-done"), key), value)
        case "settle", (tuple(), int()), _:
            expected.settled.setdefault(key, False)  # type: ignore[arg-type]
        case "settled", (tuple(), int()), _:
            expected.settled[key] = True  # type: ignore[index]
        case "leased", (tuple(), int()), int(until_ms):
            expected.leased[key] = until_ms  # type: ignore[index]
        case "power", str(unflushed), _:
            expected.leased.clear()
            for place, offset in expected.settled:
                if place[1] == unflushed:
                    expected.settled[place, offset] = False
        case "unreadable", _, _:
            expected.hidden = True
        case "forget", _, _:
            expected.settled.pop(key, None)  # type: ignore[call-overload]
        case _:
            raise AssertionError(f"no such event: {kind} {key!r} {value!r}")


def _values(expected: Expected, kind: str, key: object) -> Value:
    table: dict[object, Value] = expected.values if kind == "put" else expected.positions  # type: ignore[assignment]
    return table.setdefault(key, Value())


def _settle_value(found: Value, value: object) -> None:
    """`value` is acknowledged, and with it whatever was asked for before it."""
    if value in found.asked:
        del found.asked[: found.asked.index(value) + 1]
    found.acknowledged = value


def _withdraw(found: Value, value: object) -> None:
    found.asked.remove(value)
