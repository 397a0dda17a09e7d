"""Two data directories of a store with all that a store can hold: one that was stopped, and one whose process was killed."""

from __future__ import annotations

import json
from typing import Any

from domain.access.access import AccessPolicy, Grant, User
from domain.access.oscore import OscoreContext
from domain.admin.data_topic import MakeDataTopic
from domain.admin.group import PutGroup, SetReadable, SetRequestMode
from domain.admin.oscore import HoldOscoreContext, PutOscoreContext, ReserveOscoreRun
from domain.admin.subscription import Attempt, ChangeStatus, ClaimSubscriptions, PutSubscription, RecordAttempts
from domain.admin.topic import DeleteTopic, PutTopic
from domain.admin.user import CreateUser, PutPolicies
from domain.client.mqtt_session import (
    AcceptDeliveries,
    Attach,
    ConfirmDeliveries,
    Deliveries,
    MqttSubscription,
    SendOnce,
    Subscribe,
    Will,
)
from domain.command import Acknowledge, CommitOffsets, DeadLetter, Disconnected, Receive, Send, SendBack, SendRetry
from domain.delivery.retry import RetryPolicy
from domain.event import Received, Refused
from domain.message import property as properties
from domain.message.message import RETAIN_SET, SYS_PREPARED, Message
from domain.nameserver.route import PutSetting
from domain.subscription.document import decode
from domain.topic import lite
from domain.topic.data_topic import TopicProperties
from domain.topic.lite import LiteAction, ReceiveLite, SyncSubscription
from domain.topic.topic import Durability, Group, Topic
from domain.transaction import COMMIT, ROLLBACK, EndTransaction
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.kept.node import KeptNode, pack
from tests.kept.shown import shown
from tests.kept.use import use
from tests.kept.vectors import DATA

START_MS = 1_700_000_000_000
LONG_MS = 120_000


def message(topic: str, body: str, queue_id: int = 0, sys_flag: int = 0, retain: int = 0, **stored: object) -> Message:
    """A message with a known id."""
    pairs = [("UNIQ_KEY", f"{topic}-{body}"), *((name, str(value)) for name, value in stored.items())]
    return Message(
        topic, body.encode(), properties.encode(pairs), queue_id=queue_id, message_id=f"{topic}-{body}", sys_flag=sys_flag,
        retain=retain, born_ms=START_MS,
    )  # fmt: skip


class Filled(KeptNode):
    """A node that is filled; `notes` are what its clients must know to go on."""

    notes: dict[str, Any]

    def done(self, command: Any, client: EventRecorder | None = None) -> Any:
        event = self.ask(command, client)
        assert not isinstance(event, Refused), (command, event)
        return event

    def send(self, *messages: Message, **given: Any) -> Any:
        return self.done(Send(1, list(messages), **given))

    def receive(self, group: str, topic: str, limit: int, invisible_ms: int = LONG_MS, **given: Any) -> Any:
        event = self.done(Receive(1, group, topic, limit, invisible_ms, from_first=True, **given))
        assert isinstance(event, Received)
        return event.messages

    def catalog(self) -> None:
        """Topics of each kind, groups, users, settings."""
        for name, kind, more in (
            ("orders", "NORMAL", {"attributes": {"queue.type": "BatchCQ"}, "retention_ms": 32_400_000}),
            ("rows", "FIFO", {"order": True}),
            ("later", "DELAY", {}),
            ("deals", "TRANSACTION", {}),
            ("urgent", "PRIORITY", {}),
            ("rooms", "LITE", {}),
            ("mixed", "MIXED", {"durability": Durability.REPLICATED, "retention_bytes": 1 << 30}),
            ("page", "NORMAL", {"durability": Durability.PAGE}),
            ("readonly", "NORMAL", {"perm": 4}),
            ("gone", "NORMAL", {}),
            ("reborn", "NORMAL", {}),
        ):
            self.done(PutTopic(1, Topic(name, 2, 2, type=kind, **more)))
        policy = RetryPolicy()
        for group in (
            Group("g"), Group("ordered", orderly=True), Group("pullers", attributes={"colour": "green"}),
            Group("few", retry_max=1, retry_queues=2, notify=False, retry=policy),
            Group("lites", attributes={"lite.bind.topic": "rooms"}), Group("closed"), Group("again"),
        ):  # fmt: skip
            self.done(PutGroup(1, group))
        self.done(SetReadable(1, "closed", "orders", False))
        self.done(SetRequestMode(1, "g", "orders", "POP", 2))
        self.done(CreateUser(1, User("ann", "secret of ann")))
        self.done(CreateUser(1, User("root", "secret of root", True)))
        self.done(CreateUser(1, User("left", "secret", False, False)))
        policies = (
            AccessPolicy("Topic:orders", ("Pub", "Sub"), sources=("10.0.0.0/8",)),
            AccessPolicy("Group:*", ("Sub",), "Deny", default=True),
        )
        self.done(PutPolicies(1, Grant("ann", policies)))
        self.done(PutOscoreContext(1, OscoreContext("ann", b"\x01", b"\x02", b"s" * 16, b"salt", None, 10)))
        self.done(ReserveOscoreRun(1, "ann"))
        self.done(HoldOscoreContext(1, "ann", 77, 0))
        self.done(PutSetting(1, "ORDER_TOPIC_CONFIG", "orders", "broker-a:2"))

    def retried(self) -> None:
        """Messages in the retry topic of a group that receives: %RETRY%again_orders."""
        self.send(*(message("orders", f"again {number}") for number in range(3)))
        self.receive("again", "orders", 3, 1_000)
        self.run(2 * 3_600_000)
        self.receive("again", "orders", 3, 1_000)
        self.receive("again", "orders", 3, 1_000)
        assert self.parts.store.metadata.topic("%RETRY%again_orders") is not None

    def messages(self) -> None:
        """Messages of each kind, leases, retries, dead letters."""
        for number in range(24):
            self.send(message("orders", f"order {number}", number % 2, KEYS=f"key-{number}", TAGS="abc"[number % 3]))
            self.send(message("rows", f"row {number}", number % 2, __SHARDINGKEY=f"row-{number % 4}"))
        self.send(*(message("page", f"page {number}") for number in range(5)), message("mixed", "of one commit"))
        for number, priority in enumerate((1, 9, 5)):
            self.send(message("urgent", f"urgent {number}", _SYS_MSG_PRIORITY_=priority))
        self.send(message("orders", "expired", HG_EXPIRE_MS=self.clock.wall_ms() + 30_000))
        self.send(message("gone", "lost"))
        self.send(message("reborn", "first life"))
        for name in ("gone", "reborn"):
            self.done(DeleteTopic(1, name))
        self.done(PutTopic(1, Topic("reborn", 1, 1)))
        self.send(message("reborn", "second life"))
        leased = self.receive("g", "orders", 10, queue_id=0)
        self.done(Acknowledge(1, "g", "orders", [each.receipt for each in (*leased[:3], *leased[5:7])]))
        self.notes["leased"] = [shown(each.receipt) for each in leased]
        for each in self.receive("few", "orders", 4, 60_000, queue_id=1)[:2]:
            self.done(DeadLetter(1, "few", "orders", each.receipt))
        ordered = self.receive("ordered", "rows", 6, ordered=True, attempt_id="attempt-1")
        self.done(Acknowledge(1, "ordered", "rows", [ordered[0].receipt]))
        self.done(CommitOffsets(1, "pullers", [("orders", 0, 7), ("orders", 1, 9), ("rows", 0, 2)]))
        sent = self.send(message("orders", "comes back", 1))
        self.done(SendBack(1, "few", sent.placed[0].physical_offset, 1))
        self.done(SendRetry(1, [message("orders", "of an orderly one")], "ordered", 3))
        once = message("orders", "only once")
        self.notes["once"] = shown(self.send(once, once=(b"idempotency-1", b"d" * 16)).placed)

    def hidden(self) -> None:
        """Delayed and half messages, lite topics."""
        due = self.clock.wall_ms() + 2 * LONG_MS
        self.send(message("later", "much later", TIMER_DELIVER_MS=due))
        recalled = self.send(message("later", "recallable", TIMER_DELIVER_MS=due + 1_000))
        self.notes["handle"] = recalled.placed[0].recall_handle
        self.send(message("later", "level 5", DELAY=5))
        self.send(message("later", "at once", TIMER_DELIVER_MS=self.clock.wall_ms() + 1_000))
        for number, outcome in enumerate((COMMIT, ROLLBACK, "", "")):
            half = message(
                "deals", f"half {number}", sys_flag=SYS_PREPARED, TRAN_MSG="true", PGROUP="dealers",
                CHECK_IMMUNITY_TIME_IN_SECONDS=7_000,
            )  # fmt: skip
            placed = self.send(half).placed[0]
            if outcome:
                self.done(EndTransaction(1, "dealers", f"deals-half {number}", outcome, placed.queue_offset))
            else:
                self.notes[f"half {number}"] = placed.queue_offset
        self.done(SyncSubscription(1, "reader", "lites", "rooms", LiteAction.COMPLETE_ADD, ["a", "b"]))
        for number in range(6):
            self.send(message("rooms", f"said {number}", __LITE_TOPIC="ab"[number % 2]))
        found = self.done(ReceiveLite(1, "reader", "lites", "rooms", 2, LONG_MS))
        self.notes["lite"] = [each.receipt.queue_offset for each in found.messages]

    def mqtt(self) -> None:
        """Sessions that are away, with deliveries in flight, inbound packet identifiers and a will; retained values."""
        for room in ("hall", "lab"):
            self.send(message("rooms2", f"value of {room}", retain=RETAIN_SET, originMqttTopic=f"rooms2/{room}"))
        device, other = EventRecorder("mqtt"), EventRecorder("mqtt")
        will = Will(message("wills", "the will", originMqttTopic="wills/device"), 86_400)
        self.done(Attach(1, "device", False, 0xFFFFFFFF, 10, will, 0, "10.0.0.9:5000"), device)
        self.done(
            Subscribe(2, [MqttSubscription("events/#", 1, identifier=7), MqttSubscription("events/twice", 2, True, True, 1)]),
            device,
        )
        self.done(Attach(1, "sharer", False, 100_000, 10), other)
        self.done(Subscribe(2, [MqttSubscription("orders2/#", 1, group="team")]), other)
        for number in range(3):
            self.send(message("events", f"event {number}", originMqttTopic="events/once", qosLevel=1))
        self.send(message("events", "event twice", originMqttTopic="events/twice", qosLevel=2))
        self.send(message("orders2", "shared", originMqttTopic="orders2/x", qosLevel=1))
        self.run(500)
        events = [each for each in device.take() if isinstance(each, Deliveries)]
        flying = [each for event in events for each in event.items]
        self.notes["flying"] = [[each.slot, each.level, each.routed.record.body.decode()] for each in flying]
        twice = next(each for each in flying if each.level == 2)
        self.notify(AcceptDeliveries([twice.slot]), device)
        self.notify(ConfirmDeliveries([flying[0].slot]), device)
        self.done(SendOnce(3, [message("events2", "inbound", originMqttTopic="events2/x")], [41]), device)
        self.notes["shared"] = len([each for each in other.take() if isinstance(each, Deliveries)])
        for each in (device, other):
            self.notify(Disconnected("lost"), each)
        for number in range(2):
            self.send(message("events", f"while away {number}", originMqttTopic="events/away", qosLevel=1))

    def outside(self) -> None:
        """Webhook subscriptions with attempts, topics of CoAP."""
        document = {
            "source": "orders", "sink": "https://sink.example/hook", "protocol": "HTTP", "types": ["a", "b"],
            "filters": [{"prefix": {"type": "com"}}], "config": {"verify": False, "batchMax": 4, "ordered": True},
            "sinkcredential": {"type": "bearer", "token": "secret token"},
        }  # fmt: skip
        first = self.done(PutSubscription(1, json.dumps(document).encode(), "orders", "", ["replies"]))
        identity = decode(first.record).id
        second = {"source": "rows", "sink": "https://sink.example/other", "protocol": "HTTP", "config": {"group": "hooks"}}
        other = self.done(PutSubscription(1, json.dumps(second).encode(), "rows", "hooks"))
        self.done(ChangeStatus(1, decode(other.record).id, "paused", "by a person"))
        self.notes["subscription"] = identity
        self.done(ClaimSubscriptions(1, "courier", 10))
        self.run(1_000)
        claimed = self.done(ClaimSubscriptions(1, "courier", 10))
        epoch = next(each.epoch for each in claimed.claims if each.id == identity)
        attempts = [
            Attempt(START_MS + number, f"orders-order {number}", 1, number, 500 * (number == 1), 12, "retried", "no answer")
            for number in range(3)
        ]
        self.done(RecordAttempts(1, identity, epoch, attempts, "open"))
        given = TopicProperties(50, "temperature", START_MS + 180_000_000, 5, 60, b"21")
        first_value = message("ps", "21", retain=RETAIN_SET, originMqttTopic="ps/kitchen")
        self.notes["data topic"] = self.done(MakeDataTopic(1, "ps/kitchen", given, "10.0.0.9", first_value)).topic.id
        self.done(MakeDataTopic(1, "ps/half", TopicProperties(40)))

    def fill(self) -> None:
        self.notes = {}
        for part in (self.catalog, self.retried, self.messages, self.hidden, self.mqtt, self.outside):
            part()


def queues_of(node: KeptNode) -> list[tuple[str, int]]:
    """All queues that have had a message, lite ones too."""
    store = node.parts.store
    names = [(each.name, max(each.read_queues, each.write_queues)) for each in store.metadata.topics()]
    names += [(lite.queue_name("rooms", each), 1) for each in store.lite_queues.names("rooms")]
    found = [(name, queue_id) for name, count in names for queue_id in range(count)]
    return [(name, queue_id) for name, queue_id in found if node.answered(store.log.bounds, name, queue_id)[1]]


def keep(name: str, files: dict[str, bytes], wall_ms: int, notes: dict[str, Any]) -> None:
    """Write an archive, and what the old code finds in it."""
    pack(DATA / f"{name}.tar.xz", files)
    node = KeptNode(files, wall_ms)
    spaces = sorted(node.parts.store.state._view._spaces)
    queues = queues_of(node)
    groups = [each.name for each in node.parts.store.metadata.groups()]
    manifest = {
        "wall_ms": wall_ms, "notes": notes, "look": {"spaces": spaces, "queues": queues, "groups": groups},
        "facts": node.facts(spaces, queues, groups),
    }  # fmt: skip
    manifest["use"] = use(KeptNode(files, wall_ms), notes)
    (DATA / f"{name}.json").write_text(json.dumps(manifest, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


def main() -> None:
    """Write both directories."""
    node = Filled({}, START_MS)
    node.fill()
    node.run(5_000)
    wall_ms = node.clock.wall_ms() + 1_000
    notes = node.notes
    files = node.stopped()
    keep("store-stopped", files, wall_ms, notes)
    second = Filled(files, wall_ms, 2)
    second.notes = dict(notes)
    for number in range(10):
        second.send(message("orders", f"late {number}", number % 2, KEYS="late"))
    second.run(5_000)
    more = second.receive("g", "orders", 5)
    second.done(Acknowledge(1, "g", "orders", [each.receipt for each in more[:2]]))
    second.send(message("later", "later than all", TIMER_DELIVER_MS=second.clock.wall_ms() + 4 * LONG_MS))
    second.done(DeleteTopic(1, "readonly"))
    second.send(message("orders", "last", 1), once=(b"idempotency-2", b"e" * 16))
    keep("store-killed", second.killed(), second.clock.wall_ms() + 1_000, second.notes)
