"""Sessions as versions up to commit 44998bdc stored them: they are read, and their next change replaces all their records."""

from __future__ import annotations

from typing import Final

import pytest

from domain.client.mqtt_session import MqttSubscription, Will
from domain.message.message import Message
from domain.message.receipt import Receipt
from domain.store.store_ports import StateChange
from gateway.usecase.sessions import record_values, snapshot
from gateway.usecase.sessions.in_flight import DeliveryLease, InFlightMessage
from gateway.usecase.sessions.mqtt_session import MqttSession
from tests.gateway.usecase.sessions.test_snapshot import facts, fresh, loaded, outlined, put, store
from tests.protocols.mqtt.stage import Broker, bodies
from tests.stored_state import pairs

RECORDS: Final = {
    b"d": (
        "0100000e100000018bcfe56800000001897bd984000003420000001efffffff00000006400000064daa320a702984f45ffffffff00000000"
        "000000000000000000000000000000000000000000000000000000007f0000010000000000000000000000007f0000010000000000000000"
        "000000000000000000000004676f6e65017700046b0176021e000000000700000000000004d20003742f2300000000000000000000000000"
        "0000b6752fc3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3"
        "a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3"
        "a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3"
        "a9c3a9c3a9c3a9c3a9c3a9c3a9c3a9c3a90100000000000000000000000000000c2473686172652f672f742f780004616e6e61"
    ),
    b"f": (
        "ffff010000000000000000000000050100000007000174000000010e00000001000000000000000600000174000000020900000000000000"
        "000000000002000000070000000900000006742f6b6570740003110000004600000000000000080000017400000001670000018bcfe5687b"
    ),
    b"pt": "000000000000000000000006000000010000000000000007000000460000000000000009",
    b"pu": "00000000fffffe7684267c00",
    b"m\x00M": "01",
}
"""What commit 44998bdc wrote for `session()`, by what follows the client id and the zero byte in the key."""


def changes(client_id: str = "old") -> list[StateChange]:
    return [StateChange("session", snapshot.key(client_id, kind), bytes.fromhex(value)) for kind, value in RECORDS.items()]


def session() -> MqttSession:
    out = MqttSession("old")
    out.expiry_s, out.disconnected_ms, out.baseline_ms, out.user = 3_600, 1_700_000_000_000, 1_690_000_000_000, "anna"
    long = "u/" + "é" * 90
    out.subscriptions["t/#"] = MqttSubscription("t/#", 2, True, True, 1, 7, 1_234)
    out.subscriptions[long] = MqttSubscription(long, 0)
    out.shared_subscriptions["$share/g/t/x"] = MqttSubscription("t/x", 1, group="g")
    out.will = Will(Message("w", b"gone", b"k\x01v\x02", retain=1), 30, 0xFFFFFFF0)
    lease = DeliveryLease("g", "t", Receipt(8, 1_700_000_000_123, 0, 0, 0, "", 70, 8))
    out.in_flight[65_535] = InFlightMessage(1, ("t", 0), 5, "", False, (7,))
    out.in_flight[1] = InFlightMessage(2, ("t", 1), 6, "", True, ())
    out.in_flight[1].accepted = True
    out.in_flight[2] = InFlightMessage(1, ("", 0), 0, "t/kept", True, (7, 9))
    out.in_flight[3] = InFlightMessage(1, ("t", 70), 8, "", False, (), lease=lease)
    out.positions = {("t", 0): 6, ("t", 1): 7, ("t", 70): 9, ("u", 0): -1_690_000_000_000}
    return out


def check(found: MqttSession | None) -> MqttSession:
    assert found is not None
    assert facts(found) == facts(session())
    assert [(name, each.level) for name, each in found.shared_subscriptions.items()] == [("$share/g/t/x", 1)]
    lease = found.in_flight[3].lease
    assert lease is not None
    assert (lease.group, lease.receipt.pop_ms, found.leases, found.next_slot) == ("g", 1_700_000_000_123, 1, 4)
    assert found.received == {77: None}
    return found


def test_a_session_of_an_earlier_version_is_read() -> None:
    opened, clock = store()
    put(opened, clock, changes())
    check(loaded(opened, "old"))
    outline = outlined(opened.state, "old")
    assert outline is not None
    assert (outline.user, len(outline.subscriptions), outline.will is not None) == ("anna", 2, True)
    found: list[object] = []
    snapshot.positions(opened.state, "old", "t", found.append)
    assert found == [{0: 6, 1: 7, 70: 9}]


def test_its_next_change_replaces_all_its_records_once() -> None:
    opened, clock = store()
    put(opened, clock, changes())
    found = check(loaded(opened, "old"))
    put(opened, clock, snapshot.definition(found).changes)
    assert [key for key, _ in pairs(opened.state, "session")] == [b"old\0e"]
    again = check(loaded(opened, "old"))
    assert snapshot.definition(again).changes == []
    positions: list[object] = []
    snapshot.positions(opened.state, "old", "t", positions.append)
    assert positions == [{0: 6, 1: 7, 70: 9}]
    put(opened, clock, snapshot.removal(again))
    assert pairs(opened.state, "session") == pairs(opened.state, "mqtt") == []


def test_its_removal_takes_all_of_it() -> None:
    opened, clock = store()
    put(opened, clock, changes())
    put(opened, clock, changes("older"))
    put(opened, clock, snapshot.removal(check(loaded(opened, "old"))))
    assert {key.partition(b"\0")[0] for key, _ in pairs(opened.state, "session")} == {b"older"}
    assert pairs(opened.state, "mqtt") == []


def test_what_a_node_that_went_back_wrote_is_newer() -> None:
    """An earlier version does not see a session in the present form: what it has made is the session of the client now."""
    opened, clock = store()
    present = session()
    present.subscriptions["gone/#"] = MqttSubscription("gone/#", 1)
    present.in_flight[9] = InFlightMessage(1, ("t", 0), 1, "", False, ())
    put(opened, clock, snapshot.definition(fresh(present)).changes)
    put(opened, clock, changes())
    found = check(loaded(opened, "old"))
    put(opened, clock, snapshot.definition(found).changes)
    check(loaded(opened, "old"))
    put(opened, clock, snapshot.removal(found))
    assert pairs(opened.state, "session") == pairs(opened.state, "mqtt") == []


@pytest.mark.parametrize("both", [False, True])
def test_a_node_starts_with_sessions_of_an_earlier_version(both: bool) -> None:
    broker = Broker()
    sender = broker.client()
    sender.connect("sender")
    if both:
        client = broker.client(5)
        client.connect("old", clean=False, expiry_s=3_600)
        client.subscribe("never/#", 1)
        client.drop()
    found = session()
    found.user, found.will, found.expiry_s = "", None, 0xFFFFFFFF
    broker.store.state.put(older(found), None)
    broker.run()
    broker.kill()
    broker.run(2_000)
    assert broker.sessions.filter_index.of("t")[0].users == 1
    client = broker.client(5)
    assert client.connect("old", clean=False, expiry_s=3_600).present
    sender = broker.client()
    sender.connect("sender")
    for path in ("t/a", "never/a"):
        sender.publish(path, b"new")
    assert bodies(client.messages()) == [b"new"]
    assert [key for key, _ in pairs(broker.store.state, "session")] == [b"old\0e"]
    client.leave()
    sender.publish("t/a", b"newer")
    broker.kill()
    client = broker.client(5)
    assert client.connect("old", clean=False, expiry_s=3_600).present
    assert bodies(client.messages()) == [b"newer"]


def older(found: MqttSession) -> list[StateChange]:
    """The records of a session with one filter, as the earlier version wrote its definition."""
    head = record_values._OLD_DEFINITION.pack(1, found.expiry_s, found.disconnected_ms, 0, 1) + bytes(13)
    one = record_values._OLD_SUBSCRIPTION.pack(1, 0, 0, 0) + b"\0\x03t/#"
    return [StateChange("session", snapshot.key("old", b"d"), head + one)]
