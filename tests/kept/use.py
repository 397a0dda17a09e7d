"""Clients go on with a node on a kept directory: what they are answered."""

from __future__ import annotations

from typing import Any

from domain.admin.data_topic import ListDataTopics, QueryDataTopic
from domain.admin.group import ListGroups, ListRequestModes, SetReadable
from domain.admin.oscore import QueryOscoreContext, ReserveOscoreRun
from domain.admin.subscription import QueryAttempts, QuerySubscriptions
from domain.admin.topic import QueryTopic
from domain.admin.user import ListPolicies, ListUsers
from domain.client.mqtt_session import (
    AcceptDeliveries,
    Attach,
    Attached,
    ConfirmDeliveries,
    Deliveries,
    DeliveriesAccepted,
    MqttSubscription,
    ReleasePacketIds,
    SendOnce,
    Subscribe,
)
from domain.command import Acknowledge, QueryLatest, QueryOffset, Receive, Send
from domain.event import LatestValue, Received, Sent
from domain.message.message import Message
from domain.message.receipt import Receipt
from domain.message.record import Record
from domain.nameserver.route import QuerySettings
from domain.topic.lite import ReceiveLite
from domain.transaction import COMMIT, EndTransaction, RecallMessage
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.kept.node import KeptNode
from tests.kept.shown import shown

LONG_MS = 120_000
"""Length of the leases, and of half the longest delay."""
Answers = list[Any]


def use(node: KeptNode, notes: dict[str, Any]) -> dict[str, Answers]:
    """What clients are answered, by subject. `notes`: what they know from before."""
    return {
        "once": [_placed(node.ask(Send(1, [_once()], once=(b"idempotency-1", b"d" * 16))))],
        "inquiries": _inquiries(node, notes),
        "sessions": _sessions(node),
        "transactions": _transactions(node, notes),
        "recall": [shown(node.ask(RecallMessage(1, "later", notes["handle"])))],
        "lite": [_received(node.ask(ReceiveLite(1, "reader", "lites", "rooms", 8, 1_000)))],
        "leases": _leases(node, notes),
        "times": _times(node),
    }


def _inquiries(node: KeptNode, notes: dict[str, Any]) -> Answers:
    asked = (
        ListUsers(1), ListPolicies(1), QueryOscoreContext(1, "ann"), ReserveOscoreRun(1, "ann"), ListGroups(1),
        ListRequestModes(1), SetReadable(1, "closed", "orders"), QuerySettings(1, "ORDER_TOPIC_CONFIG"),
        QueryTopic(1, "mixed"), QueryTopic(1, "gone"), QuerySubscriptions(1), QueryAttempts(1, notes["subscription"]),
        QueryDataTopic(1, notes["data topic"], True), ListDataTopics(1), QueryOffset(1, "pullers", "orders", 1),
    )  # fmt: skip
    found = [shown(node.ask(each)) for each in asked]
    for path in ("rooms2/hall", "ps/kitchen", "rooms2/none"):
        latest = node.ask(QueryLatest(1, path))
        record = latest.record if isinstance(latest, LatestValue) else None
        found.append(_body(record) if record is not None else type(latest).__name__)
    return found


def _leases(node: KeptNode, notes: dict[str, Any]) -> Answers:
    """What is leased is not given; a receipt from before settles; what is not settled comes again when its lease is over."""
    kept = [Receipt(**{name: value for name, value in each.items() if name != "of"}) for each in notes["leased"]]
    found = [_received(node.ask(Receive(1, "g", "orders", 32, LONG_MS, queue_id=0)))]
    found.append(shown(node.ask(Acknowledge(1, "g", "orders", [kept[3], kept[0], kept[7]]))))
    found.append(_received(node.ask(Receive(1, "ordered", "rows", 32, 1_000, ordered=True, attempt_id="attempt-1"))))
    found.append(_received(node.ask(Receive(1, "few", "orders", 32, LONG_MS, queue_id=1))))
    node.run(2 * LONG_MS)
    for _ in range(2):
        found.append(_received(node.ask(Receive(1, "again", "orders", 32, LONG_MS))))
    for _ in range(2):
        found.append(_received(node.ask(Receive(1, "g", "orders", 32, 1_000))))
    return found


def _sessions(node: KeptNode) -> Answers:
    """A session goes on where it was: deliveries in flight, what came while it was away, packet identifiers."""
    device, other, new = (EventRecorder("mqtt") for _ in range(3))
    events = node.notify(Attach(1, "device", False, 0xFFFFFFFF, 10), device)
    found: Answers = [_session_events(events)]
    again = [each for event in events if isinstance(event, Deliveries) for each in event.items]
    twice = [each.slot for each in again if each.level == 2]
    found.append(_session_events(node.notify(AcceptDeliveries(twice), device)))
    found.append(_session_events(node.notify(ConfirmDeliveries([each.slot for each in again]), device)))
    inbound = Message("events2", b"again", b"UNIQ_KEY\x01events2-again\x02originMqttTopic\x01events2/x\x02", queue_id=0)
    found.append([type(each).__name__ for each in node.notify(SendOnce(2, [inbound], [41]), device)])
    found.append([type(each).__name__ for each in node.notify(ReleasePacketIds(3, [41]), device)])
    found.append(_session_events(node.notify(Attach(1, "sharer", False, 100_000, 10), other)))
    node.notify(Attach(1, "new", True, 0, 10), new)
    found.append(_session_events(node.notify(Subscribe(2, [MqttSubscription("rooms2/+", 1)]), new)))
    found.append(node.queue("events2", 0)["end"])
    return found


def _session_events(events: list[Any]) -> Answers:
    """The answers, and the deliveries: slot, QoS, retained, path, body."""
    found: Answers = [each.session_present for each in events if isinstance(each, Attached)]
    found += [each.slots for each in events if isinstance(each, DeliveriesAccepted)]
    items = [each for event in events if isinstance(event, Deliveries) for each in event.items]
    found += [[each.slot, each.level, each.retained, each.routed.path, each.routed.record.body.decode()] for each in items]
    return found


def _transactions(node: KeptNode, notes: dict[str, Any]) -> Answers:
    """A half message is committed, and can be read then; one that is decided already stays so."""
    found = [
        shown(node.ask(EndTransaction(1, "dealers", f"deals-half {number}", COMMIT, notes.get(f"half {number}", -1))))
        for number in (2, 0)
    ]
    found.append([each[1] for each in node.queue("deals", 0)["records"]])
    return found


def _times(node: KeptNode) -> Answers:
    """Delayed messages come when they are due, once, and the one that was recalled does not."""
    node.run(5 * LONG_MS)
    bodies = [sorted(each[1] for each in node.queue("later", queue)["records"]) for queue in (0, 1)]
    return [bodies, node.parts.store.figures()["timers"]]


def _once() -> Message:
    return Message("orders", b"only once", b"UNIQ_KEY\x01orders-only once\x02", queue_id=0, message_id="orders-only once")


def _placed(event: Any) -> Answers:
    assert isinstance(event, Sent), event
    return [shown(each) for each in event.placed]


def _received(event: Any) -> Answers:
    """Topic, queue, offset, attempt and body of each."""
    assert isinstance(event, Received), event
    found: Answers = []
    for each in event.messages:
        record = Record(each.record)
        topic = record.topic.replace("+", "_")  # 44998bdc made %RETRY%group_topic, and later versions %RETRY%group+topic
        found.append([topic, each.receipt.queue_id, each.receipt.queue_offset, each.attempt, record.body.decode()])
    return found


def _body(record: bytes) -> str:
    return Record(record).body.decode()
