"""The duplicate table: RFC 7252 sections 4.2, 4.5 and 4.8.2."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.address import host_bytes
from protocols.coap.exchange import message_ids
from protocols.coap.exchange.dedup import (
    ANSWER_BYTES,
    CROWDED,
    EXPIRED_PAGES_MAX,
    KEY_PORT_BITS,
    PAGE_BYTES,
    PROTECTED_S,
    RecentRequests,
    network_of,
)
from protocols.coap.message import message, option
from protocols.coap.observe.observations import Feed
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
    data = stage.build(message.POST, "mq/t", b"1")
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
    assert not stage.endpoint.replier.recent_con.pages
    assert not stage.endpoint.replier.recent_con.bytes
    assert stage.endpoint.deadline() is None


LONE_BYTES = PAGE_BYTES + message_ids.HEAD_BYTES + message_ids.STRIDE
"""What a request counts for whose message id is far from all others of its remote."""


def test_full_table_refuses_rather_than_forget_what_is_young() -> None:
    stage = Stage()
    stage.endpoint.replier.recent_con = RecentRequests(247, 10 * LONE_BYTES)
    codes = [message.name(stage.request(message.POST, "mq/t", b"1", mid=256 * number)[0].code) for number in range(20)]
    stored = len(stage.log)
    assert codes == ["2.01"] * stored + ["5.03"] * (20 - stored)
    assert stored == 3, "a host has a quarter, and the entry that begins within it"
    [answer] = stage.request(message.POST, "mq/t", b"1", mid=256 * 20)
    assert values(answer, option.MAX_AGE)
    stage.advance(44)
    assert message.name(stage.request(message.POST, "mq/t", b"1", mid=256 * 21)[0].code) == "5.03"
    stage.advance(2)
    assert message.name(stage.request(message.POST, "mq/t", b"1", mid=256 * 22)[0].code) == "2.01"
    assert stage.endpoint.replier.recent_con.evicted > 0
    assert stage.endpoint.replier.executing == 0


def test_full_table_still_answers_duplicates_and_reads() -> None:
    stage = Stage()
    stage.endpoint.replier.recent_con = RecentRequests(247, 8 * LONE_BYTES)
    data = stage.build(message.PUT, "mq/t", b"1", mid=1)
    first = stage.raw(data)
    for number in range(20):
        stage.request(message.PUT, "mq/t", b"2", mid=256 * number + 300)
    assert stage.raw(data) == first
    assert message.name(stage.request(message.GET, "mq/t", mid=9_000)[0].code) == "2.05"


def test_full_table_drops_non_confirmable_requests() -> None:
    stage = Stage()
    stage.endpoint.replier.recent_non = RecentRequests(145, LONE_BYTES)
    answers = [stage.request(message.POST, "mq/t", b"1", kind=message.NON, mid=256 * number) for number in range(3)]
    assert [len(answer) for answer in answers] == [1, 0, 0]
    assert stage.endpoint.replier.executing == 0


def of_network(network: int, number: int) -> int:
    """A key of a request from the network."""
    return network << KEY_PORT_BITS | number


def lone(number: int) -> int:
    """The lower bits of keys, each with a page of its own."""
    return number << message_ids.SLOT_BITS


def test_a_host_that_sends_all_that_a_fast_node_handles_is_not_refused() -> None:
    """256 ports that count their message ids up, 60,000 requests a second for as long as requests are protected."""
    table = RecentRequests(247, 56 * 1024 * 1024)
    ports, of_port = 256, 60_000 * PROTECTED_S // 256
    assert of_port < 65_536
    served = 0
    for number in range(0, of_port, message_ids.SLOTS):
        second = number * PROTECTED_S // of_port
        for port in range(ports):
            first = of_network(7, port << 16 | number)
            assert table.begin(first, b"tk", second * SECOND)
            page = table.pages[first >> message_ids.SLOT_BITS]  # the rest of it at once: this is a test of room, not of speed
            more = b"".join((page[message_ids.HEAD_BYTES :] * (message_ids.SLOTS - 1),))
            page += more
            table._count(7, len(more))
            served += message_ids.SLOTS
    assert served >= 60_000 * PROTECTED_S
    assert table.bytes <= 56 * 1024 * 1024 * CROWDED


def test_a_request_takes_five_bytes_and_its_response_goes_before_it_is_refused() -> None:
    table = RecentRequests(247, 64 * 1024)
    for number in range(2_700):
        key = of_network(1, number)
        assert table.begin(key, b"tk", 0), "there is room as long as responses can go"
        table.settle(key, message.CREATED, b"x" * 60, False)
    assert table.evicted == 0
    assert table.reduced > 2_000
    assert table.bytes <= 64 * 1024 * CROWDED + LONE_BYTES + ANSWER_BYTES + 60
    assert table.answer(of_network(1, 2_699), b"tk") == b"x" * 60
    plain = message.encode(message.ACK, message.CREATED, 0, b"tk", b"", b"")
    assert table.answer(of_network(1, 0), b"tk") == plain
    assert table.answer(of_network(1, 0), b"other") == b"", "another request, which was not executed, gets no success"


@pytest.mark.parametrize("at_once", [256, 2_000])
def test_requests_that_are_answered_together_leave_room_for_the_next(at_once: int) -> None:
    """Requests in execution have no response yet: those of many at once are the table's bytes only when all have begun."""
    table = RecentRequests(247, 4 * 1024 * 1024)
    for first in range(0, 60_000, at_once):
        keys = [of_network(1, number) for number in range(first, first + at_once)]
        assert all(table.begin(key, b"tk", 0) for key in keys)
        for key in keys:
            table.settle(key, message.CREATED, b"x" * 60, False)
        assert table.bytes <= 4 * 1024 * 1024 * CROWDED + LONE_BYTES + ANSWER_BYTES + 60
    assert table.reduced > 0
    assert table.evicted == 0


def test_a_message_is_stored_once_though_its_response_was_dropped() -> None:
    stage = Stage()
    stage.endpoint.replier.recent_con = RecentRequests(247, 4_096)
    data = stage.build(message.POST, "mq/t", b"1", token=b"one")
    [first] = stage.raw(data)
    for _ in range(100):
        stage.request(message.POST, "mq/t", b"2")
    [again] = stage.raw(data)
    assert len(stage.log) == 101
    assert again == first[: len(again)], "the same code, message id and token, without the location"
    assert stage.raw(stage.build(message.POST, "mq/t", b"1", token=b"two", mid=1)) == []


def test_a_response_that_is_of_no_use_in_part_stays_whole() -> None:
    table = RecentRequests(247, 64 * 1024)
    kept = of_network(1, 0)
    assert table.begin(kept, b"tk", 0)
    table.settle(kept, message.CONTENT, b"y" * 500, True)
    for number in range(1, 3_000):
        key = of_network(1, number)
        assert table.begin(key, b"tk", 0)
        table.settle(key, message.CREATED, b"x" * 60, False)
    assert table.answer(kept, b"tk") == b"y" * 500


def test_bytes_of_responses_are_bounded() -> None:
    table = RecentRequests(247, 10 * (LONE_BYTES + ANSWER_BYTES + 100))
    for network in range(50):
        if not table.begin(of_network(network, 0), b"", 0):
            break
        table.settle(of_network(network, 0), message.CONTENT, b"x" * 100, True)
    assert len(table.answers) == 10
    assert table.begin(of_network(99, 0), b"", 50 * SECOND)
    assert len(table.answers) == 9


def test_one_network_leaves_room_for_the_others() -> None:
    table = RecentRequests(247, 800 * LONE_BYTES)
    taken = sum(table.begin(of_network(1, lone(number)), b"", 0) for number in range(1_000))
    assert taken == 200
    others = [sum(table.begin(of_network(network, lone(number)), b"", 0) for number in range(1_000)) for network in range(2, 8)]
    assert others == [100] * 6, "each has its share while there is any room"
    assert not table.begin(of_network(9, 0), b"", 0)
    while table.expire(300 * SECOND):
        pass
    assert (table.bytes, table.networks, len(table.pages)) == (0, {}, 0)


def test_a_network_of_ipv6_is_its_first_half() -> None:
    keys = [int.from_bytes(host_bytes(host, port), "big") << 16 for host, port in [
        ("2001:db8::1", 1), ("2001:db8::ffff:1", 2), ("2001:db8:0:1::1", 1), ("10.0.0.1", 1), ("10.0.0.1", 9),
    ]]  # fmt: skip
    networks = [network_of(key) for key in keys]
    assert networks[0] == networks[1] != networks[2]
    assert networks[3] == networks[4]


def test_old_requests_go_in_slices() -> None:
    table = RecentRequests(247, 1 << 30)
    for number in range(3 * EXPIRED_PAGES_MAX):
        assert table.begin(of_network(number, number), b"", 0)
    assert table.expire(300 * SECOND)
    assert len(table.pages) == 2 * EXPIRED_PAGES_MAX


def test_a_swept_table_is_empty_soon_after_the_last_lifetime() -> None:
    stage = Stage()
    for port in range(3 * EXPIRED_PAGES_MAX):
        stage.request(message.POST, "mq/t", b"1", source=peer(port + 1))
    stage.advance(247 + 11)
    assert not stage.endpoint.replier.recent_con.pages
    assert not stage.endpoint.replier.recent_con.answers


def test_responses_go_once_no_client_sends_its_request_again() -> None:
    stage = Stage()
    data = stage.build(message.POST, "mq/t", b"1")
    [first] = stage.raw(data)
    stage.advance(PROTECTED_S - 1)
    assert stage.raw(data) == [first]
    stage.advance(20)
    [later] = stage.raw(data)
    assert later == first[: len(later)]
    assert not stage.endpoint.replier.recent_con.answers
    assert len(stage.log) == 1


Step = tuple[int, int, int]


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.sampled_from([0, 1, 2, 5, 90, 255, 256, 300, 511, 70_000]), st.integers(0, 130), st.integers(0, 50)))
)
def test_table_against_a_plain_dictionary(steps: list[Step]) -> None:
    """Message ids of two remotes in any order, over many lifetimes; nothing is short of memory."""
    table = RecentRequests(247, 1 << 20)
    plain: dict[int, tuple[int, bytes]] = {}
    now = 10
    for number, seconds, size in steps:
        now += seconds
        key = of_network(1, number)
        known = plain.get(key)
        living = known is not None and known[0] + 247 > now
        assert (table.code_of(key, now * SECOND) >= 0) is living
        if known is not None and living:
            fresh = known[0] + PROTECTED_S > now
            answer = table.answer(key, b"tk")
            assert answer == known[1] if fresh else answer[:1] in (known[1][:1], b"\x62")
        else:
            assert table.begin(key, b"tk", now * SECOND)
            assert table.code_of(key, now * SECOND) == message_ids.EXECUTING
            answer = b"x" * size or message.encode(message.ACK, message.CHANGED, key & 0xFFFF, b"tk", b"", b"")
            table.settle(key, message.CHANGED, b"x" * size, False)
            plain[key] = (now, answer)
        if number % 2:
            table.expire(now * SECOND)
        pages = sum(PAGE_BYTES + len(page) for page in table.pages.values())
        assert table.bytes == pages + sum(ANSWER_BYTES + len(answer) for answer in table.answers.values())
        assert sum(table.networks.values()) == table.bytes
        assert sorted(name for names in table._queued.values() for name in names) == sorted(table.pages)
    while table.expire((now + 500) * SECOND):
        pass
    assert (table.bytes, table.networks, table.pages, table.answers) == (0, {}, {}, {})


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
                        stage.carry_out(stage.endpoint.receive(copy, peer(), stage.now))
                client()
                for late in [copy for sent in outbox for copy in network(sent)]:
                    stage.carry_out(stage.endpoint.receive(late, peer(), stage.now))
                outbox.clear()
                client()
                tick(stage)
            assert mid in answered
        bodies = [stored.body for stored, _ in stage.log]
        assert bodies == [b"%d" % number for number in range(40)]
        for _ in range(4000):
            client()
            for late in [copy for sent in outbox for copy in network(sent)]:
                stage.carry_out(stage.endpoint.receive(late, peer(), stage.now))
            outbox.clear()
            tick(stage)
        assert heard == bodies[: len(heard)]
        assert len(heard) == 40 or not any(isinstance(watch.ticket, Feed) for watch in stage.watches)


def tick(stage: Stage) -> None:
    """Advance 0.2 s; ignore the datagrams sent."""
    stage.now += SECOND // 5
    due = stage.endpoint.deadline()
    if due is not None and due <= stage.now:
        stage.carry_out(stage.endpoint.expire(stage.now))


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
