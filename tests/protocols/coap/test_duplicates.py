"""The duplicate table: RFC 7252 sections 4.2, 4.5 and 4.8.2."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.address import host_bytes
from protocols.coap import message, option
from protocols.coap.dedup import ENTRY_BYTES, EXPIRED_MAX, KEY_PORT_BITS, Answers, network_of
from protocols.coap.observe import Feed
from tests.protocols.coap.stage import SECOND, Stage, peer, values


def test_duplicate_gets_the_same_bytes_and_is_not_executed() -> None:  # TD_COAP_CORE_15, 7252-4.2
    stage = Stage()
    data = stage.build(message.POST, "mq/t", b"1")
    first = stage.raw(data)
    for _ in range(1000):
        assert stage.raw(data) == first
    assert len(stage.log) == 1
    assert stage.endpoint.counts["duplicate"] == 1000


def test_duplicate_of_a_non_confirmable_request_is_ignored() -> None:  # 7252-4.5
    stage = Stage()
    data = stage.build(message.POST, "mq/t", b"1", kind=message.NON)
    assert len(stage.raw(data)) == 1
    assert stage.raw(data) == []
    assert len(stage.log) == 1


def test_duplicate_while_executing_is_not_executed_again() -> None:
    stage = Stage()
    stage.hold = True
    data = stage.build(message.PUT, "mq/t", b"1")
    assert stage.raw(data) == []
    assert stage.raw(data) == []
    assert len(stage.held) == 1
    assert len(stage.play()) == 1
    assert len(stage.raw(data)) == 1


def test_duplicate_of_a_one_shot_receive_gets_the_same_message() -> None:
    stage = Stage(amplification=0)
    stage.queue = [stage.publish("t", b"1"), stage.publish("t", b"2")]
    data = stage.build(message.GET, "mq/t", query=["group=g"])
    assert stage.raw(data) == stage.raw(data)
    assert len(stage.queue) == 1


def test_the_same_message_id_of_another_port_is_another_message() -> None:
    stage = Stage()
    data = stage.build(message.POST, "mq/t", b"1")
    stage.raw(data, peer(1))
    stage.raw(data, peer(2))
    stage.raw(data, peer(1, "2001:db8::1"))
    assert len(stage.log) == 3


def test_message_id_may_be_used_again_after_its_lifetime() -> None:  # 7252-4.8.2: 247 s and 145 s
    stage = Stage()
    confirmable = stage.build(message.POST, "mq/t", b"1")
    other = stage.build(message.POST, "mq/t", b"1", kind=message.NON)
    stage.raw(confirmable)
    stage.raw(other)
    stage.advance(140)
    stage.raw(other)
    stage.advance(6)
    stage.raw(other)
    stage.raw(confirmable)
    assert len(stage.log) == 3
    stage.advance(102)
    stage.raw(confirmable)
    assert len(stage.log) == 4
    stage.advance(300)
    assert not stage.endpoint.replier.recent_con.answers
    assert stage.endpoint.deadline() is None


def test_full_table_refuses_rather_than_forget_what_is_young() -> None:
    stage = Stage()
    stage.endpoint.replier.recent_con = Answers(247, 28 * ENTRY_BYTES)
    codes = [message.name(stage.request(message.POST, "mq/t", b"1")[0].code) for _ in range(20)]
    stored = len(stage.log)
    assert codes == ["2.01"] * stored + ["5.03"] * (20 - stored)
    assert 5 < stored < 14
    [answer] = stage.request(message.POST, "mq/t", b"1")
    assert values(answer, option.MAX_AGE)
    stage.advance(44)
    assert message.name(stage.request(message.POST, "mq/t", b"1")[0].code) == "5.03"
    stage.advance(2)
    assert message.name(stage.request(message.POST, "mq/t", b"1")[0].code) == "2.01"
    assert stage.endpoint.replier.recent_con.evicted == 1
    assert stage.endpoint.replier.executing == 0


def test_full_table_still_answers_duplicates_and_reads() -> None:
    stage = Stage()
    stage.endpoint.replier.recent_con = Answers(247, 8 * ENTRY_BYTES)
    data = stage.build(message.PUT, "mq/t", b"1")
    first = stage.raw(data)
    for _ in range(20):
        stage.request(message.PUT, "mq/t", b"2")
    assert stage.raw(data) == first
    assert message.name(stage.request(message.GET, "mq/t")[0].code) == "2.05"


def test_full_table_drops_non_confirmable_requests() -> None:
    stage = Stage()
    stage.endpoint.replier.recent_non = Answers(145, ENTRY_BYTES)
    answers = [stage.request(message.POST, "mq/t", b"1", kind=message.NON) for _ in range(3)]
    assert [len(answer) for answer in answers] == [1, 0, 0]
    assert stage.endpoint.replier.executing == 0


def test_bytes_of_answers_are_bounded() -> None:
    table = Answers(247, 10 * (ENTRY_BYTES + 100))
    for key in range(50):
        if not table.begin(of_network(key, key), 0):
            break
        table.settle(of_network(key, key), b"x" * 100)
    assert len(table.answers) == 10
    assert table.begin(of_network(99, 99), 50 * SECOND)
    assert table.bytes == 9 * (ENTRY_BYTES + 100) + ENTRY_BYTES


def of_network(network: int, number: int) -> int:
    """A key of a request from the network."""
    return network << KEY_PORT_BITS | number


def test_one_network_leaves_room_for_the_others() -> None:
    table = Answers(247, 800 * ENTRY_BYTES)
    taken = sum(table.begin(of_network(1, number), 0) for number in range(1_000))
    assert taken == 300
    others = [sum(table.begin(of_network(network, number), 0) for number in range(1_000)) for network in range(2, 8)]
    assert others == [100] * 5 + [0], "each has its share while there is any room"
    table.expire(300 * SECOND)
    assert (table.bytes, table.networks, len(table.order)) == (0, {}, 0)


def test_a_network_of_ipv6_is_its_first_half() -> None:
    keys = [int.from_bytes(host_bytes(host, port), "big") << 16 for host, port in [
        ("2001:db8::1", 1), ("2001:db8::ffff:1", 2), ("2001:db8:0:1::1", 1), ("10.0.0.1", 1), ("10.0.0.1", 9),
    ]]  # fmt: skip
    networks = [network_of(key) for key in keys]
    assert networks[0] == networks[1] != networks[2]
    assert networks[3] == networks[4]


def test_old_entries_go_in_slices() -> None:
    table = Answers(247, 1 << 30)
    for number in range(3 * EXPIRED_MAX):
        assert table.begin(of_network(number, number), 0)
    table.expire(300 * SECOND)
    assert len(table.order) == 2 * EXPIRED_MAX


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 60), st.integers(0, 50)), max_size=200))
def test_table_against_a_plain_list(steps: list[tuple[int, int, int]]) -> None:
    table = Answers(247, 20 * ENTRY_BYTES)
    plain: list[tuple[int, int, int]] = []
    now = 0
    for key, seconds, size in steps:
        now += seconds
        if of_network(key, key) in table.answers:
            continue
        table.expire(now * SECOND)
        plain = [entry for entry in plain if entry[1] + 247 > now]
        full = table.bytes >= table.bytes_max
        accepted = table.begin(of_network(key, key), now * SECOND)
        if accepted and full:
            assert plain.pop(0)[1] + 45 <= now
        elif not accepted:
            assert full
            assert plain[0][1] + 45 > now
            continue
        table.settle(of_network(key, key), b"x" * size)
        plain.append((key, now, size))
        assert list(table.order) == [of_network(entry[0], entry[0]) for entry in plain]
        assert table.bytes == sum(entry[2] + ENTRY_BYTES for entry in plain)
        assert sum(table.networks.values()) == len(plain)
        assert sum(second[1] for second in table.seconds) == len(plain)


def test_lossy_network_loses_and_doubles_nothing() -> None:
    """A client of RFC 7252 and an observer; 30 % of the datagrams are lost and 20 % doubled in each direction; virtual time."""
    for seed in range(5):
        rng = random.Random(seed)
        stage = Stage()
        heard: list[bytes] = []
        answered: set[int] = set()
        seen: set[int] = set()
        outbox: list[bytes] = []

        def network(data: bytes, rng: random.Random = rng) -> list[bytes]:
            return [] if rng.random() < 0.3 else [data] * (2 if rng.random() < 0.2 else 1)

        def client(
            heard: list[bytes] = heard,
            answered: set[int] = answered,
            seen: set[int] = seen,
            outbox: list[bytes] = outbox,
            stage: Stage = stage,
        ) -> None:
            for sent in stage.out_raw():
                for data in network(sent):
                    packet = message.decode(data)
                    assert packet is not None
                    if packet.kind == message.ACK:
                        answered.add(packet.mid)
                    elif packet.kind == message.CON:
                        if packet.mid not in seen:
                            seen.add(packet.mid)
                            heard.append(packet.payload)
                        outbox.append(message.empty(message.ACK, packet.mid))

        _, answer = stage.request(message.GET, "mq/t", pairs=[(option.OBSERVE, b"")], token=b"ob")
        assert values(answer, option.OBSERVE)
        stage.push(message.empty(message.ACK, answer.mid))
        requests = {1000 + number: stage.build(message.POST, "mq/t", b"%d" % number, mid=1000 + number) for number in range(40)}
        for mid, data in requests.items():
            for attempt in range(200):
                if mid in answered:
                    break
                if attempt % 10 == 0:
                    for copy in network(data):
                        stage._run(stage.endpoint.receive(copy, peer(), stage.now))
                client()
                for late in [copy for sent in outbox for copy in network(sent)]:
                    stage._run(stage.endpoint.receive(late, peer(), stage.now))
                outbox.clear()
                client()
                tick(stage)
            assert mid in answered
        bodies = [stored.body for stored, _ in stage.log]
        assert bodies == [b"%d" % number for number in range(40)]
        for _ in range(4000):
            client()
            for late in [copy for sent in outbox for copy in network(sent)]:
                stage._run(stage.endpoint.receive(late, peer(), stage.now))
            outbox.clear()
            tick(stage)
        assert heard == bodies[: len(heard)]
        assert len(heard) == 40 or not any(isinstance(watch.ticket, Feed) for watch in stage.watches)


def tick(stage: Stage) -> None:
    """Advance 0.2 s; ignore the datagrams sent."""
    stage.now += SECOND // 5
    due = stage.endpoint.deadline()
    if due is not None and due <= stage.now:
        stage._run(stage.endpoint.expire(stage.now))


@pytest.mark.parametrize(
    ("host", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
    ],
)
def test_a_network_is_an_ipv4_address_or_the_first_half_of_an_ipv6_address(host: str, other: str, same: bool) -> None:
    networks = [network_of(int.from_bytes(host_bytes(each, 5683), "big") << 16) for each in (host, other)]
    assert (networks[0] == networks[1]) is same
