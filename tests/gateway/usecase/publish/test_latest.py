"""Latest values: set and removed by messages, read, scanned and deleted by path."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.command import DeleteLatest, QueryLatest
from domain.errors import ErrorCode, Failure
from domain.event import Done, LatestValue, Refused
from domain.filter.path_matching import matches
from domain.message import property as properties
from domain.message.message import RETAIN_DELETE, RETAIN_SET, SYS_PREPARED, Message
from domain.message.record import Record, check
from domain.store.store_ports import SpaceLimit, State, StateChange
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.publish.latest import LatestChanges, LatestScan, LatestValues, read_value, retain
from gateway.usecase.topics_and_groups.policy import NodePolicy
from gateway.usecase.waiting.read_turns import ReadTurns
from tests.connection_driver import RecordingDriver
from tests.simulation.kit.clock import VirtualClock
from tests.stored_state import memory_state


def message(path: str, body: bytes = b"v", more: str = "", kind: int = RETAIN_SET) -> Message:
    properties = f"originMqttTopic\x01{path}\x02UNIQ_KEY\x01k\x02{more}".encode()
    return Message("t", body, properties, queue_id=2, born_ms=5, retain=kind)


def test_a_retained_message_becomes_a_whole_record_under_its_path() -> None:
    change = retain(message("t/1", b"21"))
    assert (change.space, change.key) == ("latest", b"t/1")
    assert change.value is not None
    assert check(change.value)
    record = Record(change.value)
    assert (record.body, record.topic, record.queue_offset, record.store_ms) == (b"21", "t", 0, 5)


def test_removal_and_a_bare_topic() -> None:
    assert retain(message("t/1", kind=RETAIN_DELETE)) == StateChange("latest", b"t/1", None)
    assert retain(Message("t", b"v", queue_id=0, retain=RETAIN_SET)).key == b"t"


def test_reading_and_deleting_by_path() -> None:
    state = memory_state()
    state.put([retain(message("t/1"))], None)
    values = LatestValues(state, VirtualClock(0), ReadTurns(VirtualClock(0)), ())
    heard = RecordingDriver()
    connection = ClientConnection("test", heard)
    values.read(connection, QueryLatest(1, "t/1"))
    values.read(connection, QueryLatest(2, "t"))
    values.delete(connection, DeleteLatest(3, "t/1"))
    values.read(connection, QueryLatest(4, "t/1"))
    values.read(connection, QueryLatest(5, "t/+"))
    values.delete(connection, DeleteLatest(6, "#"))
    first = heard.recorded[0]
    assert isinstance(first, LatestValue)
    assert first.record is not None
    assert heard.recorded[1:4] == [LatestValue(2, None), Done(3), LatestValue(4, None)]
    assert [e.failure.code for e in heard.recorded[4:] if isinstance(e, Refused)] == [ErrorCode.TOPIC_ILLEGAL] * 2


def test_an_expired_value_is_absent() -> None:
    state = memory_state()
    state.put([retain(message("t/1", more="HG_EXPIRE_MS\x01100\x02"))], None)
    found: list[bytes | None | Failure] = []
    read_value(state, "t/1", VirtualClock(99), found.append)
    read_value(state, "t/1", VirtualClock(100), found.append)
    assert isinstance(found[0], bytes)
    assert found[1] is None


def paths(state: State, pattern: str, most: int = 1) -> list[str]:
    scan = LatestScan(state, pattern)
    found: list[str] = []
    while scan.next_key is not None:
        scan.slice(most, lambda paths: found.extend(paths if isinstance(paths, list) else []))
    return found


LEVELS = st.sampled_from(["", "a", "a!", "ab", "b", "$", "$a", "0", "+"])
NAMES = st.lists(LEVELS.filter(lambda level: level != "+"), min_size=1, max_size=4).map("/".join)
FILTERS = st.tuples(st.lists(LEVELS, max_size=4), st.sampled_from([[], ["#"]])).map(lambda parts: "/".join(parts[0] + parts[1]))


@given(st.sets(NAMES, max_size=40), FILTERS.filter(bool), st.integers(1, 5))
def test_a_walk_finds_what_the_filter_matches(names: set[str], pattern: str, most: int) -> None:
    state = memory_state()
    state.put([StateChange("latest", name.encode(), b"v") for name in names if name], None)
    wanted = sorted((name for name in names if name and matches(pattern, name)), key=str.encode)
    assert paths(state, pattern, most) == wanted


def test_a_walk_leaves_out_what_cannot_match() -> None:
    state = memory_state()
    names = [f"a/{number:02}/{leaf}" for number in range(50) for leaf in "pqstuvx"]
    state.put([StateChange("latest", name.encode(), b"v") for name in names], None)
    scan = LatestScan(state, "a/+/q")
    turns = 0
    while scan.next_key is not None:
        scan.slice(2, lambda _: None)
        turns += 1
    assert turns <= 101, "of 175"


def test_paths_under_a_filter() -> None:
    state = memory_state()
    state.put([retain(message(path)) for path in ("t", "t/1", "t/1/x", "t/2", "t0", "t/")], None)
    assert list(paths(state, "t/#")) == ["t", "t/", "t/1", "t/1/x", "t/2"]
    assert list(paths(state, "t/+")) == ["t/", "t/1", "t/2"]
    assert list(paths(state, "+")) == ["t"]  # t0 is no path of topic `t`, so it was kept under `t`
    assert list(paths(state, "t/1")) == ["t/1"]
    assert list(paths(state, "t/9")) == []


@pytest.mark.parametrize(("kind", "mark"), [(RETAIN_SET, "set"), (RETAIN_DELETE, "remove")])
def test_a_delayed_message_becomes_the_latest_value_at_its_delivery(kind: int, mark: str) -> None:
    quota = LatestChanges(NodePolicy(), VirtualClock(0))
    assert quota.at_send(message("t/1", kind=kind)) == retain(message("t/1", kind=kind))
    delayed = message("t/1", more="TIMER_DELIVER_MS\x0150\x02", kind=kind)
    plain = delayed.properties
    assert quota.at_send(delayed) is None
    assert properties.text(delayed.properties, "HG_LATEST") == mark
    due = Message("t", b"v", delayed.properties, queue_id=2, born_ms=5)
    assert quota.at_delivery(due) == retain(Message("t", b"v", plain, queue_id=2, born_ms=5, retain=kind))
    assert due.properties == plain, "a retry of the message must not set the value again"
    assert quota.at_delivery(due) is None


def test_half_of_a_transaction_becomes_the_latest_value_when_it_is_committed() -> None:
    quota = LatestChanges(NodePolicy(), VirtualClock(0))
    half = message("t/1")
    half.sys_flag = SYS_PREPARED
    assert quota.at_send(half) is None
    committed = Message("t", b"v", half.properties, queue_id=2, born_ms=5)
    assert quota.at_delivery(committed) == retain(message("t/1"))


def test_changes_are_within_the_bounds_of_the_policy() -> None:
    policy = NodePolicy()
    policy.latest_max = 1
    latest = LatestChanges(policy, VirtualClock(60))
    limit = SpaceLimit(1, policy.latest_bytes_max)
    sent = latest.at_send(message("t/1"))
    assert sent is not None
    assert sent.within == limit
    delayed = message("t/2", more="TIMER_DELIVER_MS\x0150\x02")
    assert latest.at_send(delayed) is None
    due = latest.at_delivery(delayed)
    assert due is not None
    assert due.within == limit


def test_an_expired_one_does_not_become_the_latest_value() -> None:
    latest = LatestChanges(NodePolicy(), VirtualClock(60))
    over = message("t/1", more="TIMER_DELIVER_MS\x0150\x02HG_EXPIRE_MS\x0155\x02")
    assert latest.at_send(over) is None
    assert latest.at_delivery(over) is None
