"""Peers that send invalid lengths, guess message ids and tokens, flood the endpoint and spoof addresses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.event import WatchedMessages
from protocols.coap.blockwise.blockwise import block
from protocols.coap.exchange.remotes import Remotes
from protocols.coap.message import message, option
from tests.protocols.coap.stage import SECOND, Dice, Stage, peer, values

datagrams = st.one_of(
    st.binary(max_size=80),
    st.builds(lambda head, rest: bytes((0x40 | head & 0x3F,)) + rest, st.integers(0, 63), st.binary(min_size=3, max_size=60)),
    st.builds(
        lambda kind, code, mid, token, pairs, payload: message.encode(
            kind, code, mid, token, message.join([(11, b"mq"), (11, b"t"), *pairs]), payload
        ),
        st.integers(0, 3), st.integers(0, 8), st.integers(0, 20), st.binary(max_size=3),
        st.lists(
            st.tuples(st.sampled_from([1, 4, 5, 6, 11, 12, 15, 17, 23, 27, 60, 252, 258, 292, 3000]), st.binary(max_size=6)),
            max_size=5,
        ),
        st.binary(max_size=40),
    ),
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(datagrams, st.integers(1, 3)), max_size=30), st.booleans())
def test_no_datagram_raises_and_nothing_stays_open(datagrams: list[tuple[bytes, int]], hold: bool) -> None:
    stage = Stage()
    stage.hold = hold
    for data, port in datagrams:
        stage.push(data, peer(port))
        stage.publish("t", b"x" * 50)
    stage.hold = False
    while stage.held:
        stage.play()
    stage.advance(600)
    assert stage.endpoint.replier.executing == 0
    assert stage.endpoint.assemblies.charge == 0
    assert stage.endpoint.shared.pinned.bytes == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(datagrams, max_size=30))
def test_unproved_address_gets_at_most_three_times_what_it_sent(datagrams: list[bytes]) -> None:
    stage = Stage()
    stage.publish("t", b"x" * 3000, retain=True)
    sent = got = 0
    for data in datagrams:
        sent += len(data)
        got += sum(len(answer) for answer in stage.raw(data))
        assert got <= 3 * sent


def test_large_value_goes_to_an_unproved_address_in_small_blocks() -> None:  # 9175-2.4, 7252-11.3
    stage = Stage()
    stage.publish("temp", b"x" * 1000, retain=True)
    request = stage.build(message.GET, "mq/temp")
    [data] = stage.raw(request)
    assert len(data) <= 3 * len(request)
    answer = message.decode(data)
    assert answer is not None
    assert answer.payload == b"x" * 16
    assert values(answer, option.BLOCK2) == [b"\x08"]


def test_a_body_begun_in_small_blocks_can_be_read_to_the_end() -> None:
    stage = Stage()
    stage.request(message.PUT, "mq/temp", b"y" * 2000)  # savings that do not last for all of it
    body = bytes(range(256)) * 40
    stage.publish("temp", body, retain=True)
    [answer] = stage.request(message.GET, "mq/temp")
    got = answer.payload
    while int.from_bytes(values(answer, option.BLOCK2)[0], "big") & 8:
        value = int.from_bytes(values(answer, option.BLOCK2)[0], "big")
        [answer] = stage.request(
            message.GET, "mq/temp", pairs=[(option.BLOCK2, message.uint((value >> 4) + 1 << 4 | value & 7))]
        )
        got += answer.payload
    assert got == body


def test_block_is_answered_by_a_smaller_one_where_it_begins() -> None:  # 7959-2.4
    stage = Stage()
    body = bytes(range(256)) * 4
    stage.publish("temp", body, retain=True)
    [answer] = stage.request(message.GET, "mq/temp", pairs=[(option.BLOCK2, bytes([block(3, False, 3)]))])
    value = int.from_bytes(values(answer, option.BLOCK2)[0], "big")
    assert value & 7 < 3
    start = (value >> 4) << ((value & 7) + 4)
    assert (start, answer.payload) == (384, body[384 : 384 + len(answer.payload)])


def test_echo_proves_the_address() -> None:  # 9175-2.3
    stage = Stage()
    stage.publish("t", b"x" * 1000, retain=True)
    [challenge] = stage.request(message.GET, "mq/t", token=b"")
    assert message.name(challenge.code) == "4.01"
    [echo] = values(challenge, option.ECHO)
    [again] = stage.request(message.GET, "mq/t", token=b"", pairs=[(option.ECHO, bytes(8))])
    assert len(again.payload) < 1000
    stage.request(message.GET, "mq/t", token=b"", pairs=[(option.ECHO, echo)], source=peer(40_001))
    [other] = stage.request(message.GET, "mq/t", token=b"", source=peer(40_001))
    assert len(other.payload) < 1000
    [answer] = stage.request(message.GET, "mq/t", token=b"", pairs=[(option.ECHO, echo)])
    assert answer.payload == b"x" * 1000
    assert stage.request(message.GET, "mq/t")[0].payload == b"x" * 1000


def test_echo_goes_stale() -> None:
    stage = Stage()
    stage.publish("t", b"x" * 1000, retain=True)
    [challenge] = stage.request(message.GET, "mq/t", token=b"")
    [echo] = values(challenge, option.ECHO)
    stage.advance(300)
    [answer] = stage.request(message.GET, "mq/t", token=b"", pairs=[(option.ECHO, echo)])
    assert len(answer.payload) < 1000


def test_what_it_sent_counts_for_an_address() -> None:
    stage = Stage()
    stage.request(message.PUT, "mq/t", b"x" * 900)
    assert stage.request(message.GET, "mq/t")[0].payload == b"x" * 900


def test_an_observer_proves_its_address_before_it_gets_notifications() -> None:  # 7641-7
    stage = Stage()
    stage.publish("t/u/v", b"v" * 1000, retain=True)
    accepted, answer = stage.request(message.GET, "mq/t/u/v", pairs=[(option.OBSERVE, b"")], token=b"ob")
    assert (accepted.kind, message.name(accepted.code)) == (message.ACK, "0.00")
    assert (answer.kind, answer.payload, answer.token) == (message.CON, b"v" * 16, b"ob")
    stage.publish("t/u/v", b"x" * 1000)
    assert stage.out() == []
    [note] = stage.push(message.empty(message.ACK, answer.mid))
    assert note.payload == b"x" * 1000


def test_an_observer_that_is_not_confirmable_proves_its_address_too() -> None:
    stage = Stage()
    [answer] = stage.request(message.GET, "mq/t", pairs=[(option.OBSERVE, b"")], token=b"ob", kind=message.NON)
    assert answer.kind == message.CON
    stage.publish("t", b"1")
    [note] = stage.push(message.empty(message.ACK, answer.mid))
    assert note.payload == b"1"


@pytest.mark.parametrize("kind", [message.CON, message.NON])
@pytest.mark.parametrize("path", ["mq/t", "mq/t/a-path-with-more-bytes"])
@pytest.mark.parametrize("value", [b"", b"1", b"v" * 5000])
def test_a_forged_observer_costs_its_address_three_times_its_bytes(kind: int, path: str, value: bytes) -> None:
    """Nobody acknowledges: however many messages come, and however often the server repeats itself."""
    stage = Stage()
    stage.publish(path[3:], value, retain=True)
    asked = stage.build(message.GET, path, pairs=[(option.OBSERVE, b"")], token=b"", kind=kind)
    sent = stage.raw(asked)
    for number in range(20):
        stage.publish(path[3:], b"%d" % number * 100)
        sent += stage.out_raw()
        due = stage.now + 20 * SECOND
        while (at := stage.endpoint.deadline()) is not None and at <= due:
            stage.now = max(stage.now, at)
            stage.carry_out(stage.endpoint.expire(stage.now))
            sent += stage.out_raw()
        stage.now = due
    assert sum(len(data) for data in sent) <= 3 * len(asked)
    assert stage.endpoint.observations.count == 0, "an observer that never acknowledges is forgotten"
    assert stage.watches == []


def test_a_proven_observer_gets_notifications_after_hours_of_silence() -> None:
    stage = Stage()
    _, answer = stage.request(message.GET, "mq/t", pairs=[(option.OBSERVE, b"")], token=b"ob")
    stage.push(message.empty(message.ACK, answer.mid))
    for _ in range(5):
        stage.advance(5 * 3600)
        stage.publish("t", b"x" * 1000)
        [note] = stage.out()
        assert note.payload == b"x" * 1000
        assert stage.advance(10) != [], "an unacknowledged notification is sent again"
        stage.push(message.empty(message.ACK, note.mid))


def test_guessed_acknowledgements_prove_nothing() -> None:
    stage = Stage()
    _, answer = stage.request(message.GET, "mq/t", pairs=[(option.OBSERVE, b"")], token=b"ob")
    for guess in range(5):
        stage.push(message.empty(message.ACK, answer.mid ^ 0x100 + guess))
    stage.publish("t", b"x" * 1000)
    [note] = stage.push(message.empty(message.ACK, answer.mid))
    assert note.payload == b"x" * 16, "within the credit of what it has sent"


def test_doubled_acknowledgement_is_no_guess() -> None:
    stage = Stage()
    _, answer = stage.request(message.GET, "mq/t", pairs=[(option.OBSERVE, b"")], token=b"ob")
    stage.push(message.empty(message.ACK, answer.mid))
    for _ in range(5):
        stage.publish("t", b"1")
        [note] = stage.out()
        stage.push(message.empty(message.ACK, note.mid))
        stage.push(message.empty(message.ACK, note.mid))
    stage.advance(700)
    stage.publish("t", b"1")
    [note] = stage.out()
    stage.push(message.empty(message.ACK, note.mid))
    stage.publish("t", b"x" * 1000)
    assert stage.out()[0].payload == b"x" * 1000


def test_proof_runs_out_and_can_be_renewed() -> None:
    stage = Stage()
    stage.publish("t", b"x" * 1000, retain=True)
    for _ in range(2):
        [challenge] = stage.request(message.GET, "mq/t", token=b"")
        [echo] = values(challenge, option.ECHO)
        stage.request(message.GET, "mq/t", token=b"", pairs=[(option.ECHO, echo)])
        for _ in range(50):
            assert len(stage.request(message.GET, "mq/t")[0].payload) == 1000
        stage.advance(700)


def test_flood_of_duplicates_is_not_amplified() -> None:
    stage = Stage()
    data = stage.build(message.POST, "mq/t", b"")
    got = sum(len(answer) for _ in range(500) for answer in stage.raw(data))
    assert got <= 3 * 500 * len(data)


def test_answers_that_nobody_acknowledges_do_not_pile_up() -> None:
    stage = Stage(ack_delay_ms=1, amplification=0)
    stage.hold = True
    for _ in range(3000):
        stage.request(message.GET, "mq/t", query=["group=g"])
    assert len(stage.advance(1)) == 3000
    stage.play()
    [remote] = stage.endpoint.remotes.young.values()
    assert len(remote.waiting) <= 2048
    assert stage.endpoint.counts["unsendable"] >= 900


def test_unknown_response_is_reset_or_ignored() -> None:  # 7252-4.2, 5.3.2
    stage = Stage()
    assert stage.raw(bytes.fromhex("40450001")) == [bytes.fromhex("70000001")]
    assert stage.raw(bytes.fromhex("50450001")) == []
    assert stage.raw(bytes.fromhex("60450001")) == []
    assert stage.raw(bytes.fromhex("60000001")) == []
    assert stage.raw(bytes.fromhex("70000001")) == []


def test_silent_addresses_are_forgotten_and_observers_kept() -> None:
    stage = Stage(peers_max=20)
    _, answer = stage.request(message.GET, "mq/t", pairs=[(option.OBSERVE, b"")], token=b"ob", source=peer(1))
    stage.push(message.empty(message.ACK, answer.mid), peer(1))
    for port in range(2, 200):
        stage.push(bytes.fromhex("40000001"), peer(port))
    remotes = stage.endpoint.remotes
    assert len(remotes.young) + len(remotes.old) <= 22
    stage.publish("t", b"1")
    [note] = stage.out()
    stage.push(message.empty(message.ACK, note.mid), peer(1))
    stage.publish("t", b"2")
    assert [packet.payload for packet in stage.out()] == [b"2"]


def test_remote_is_the_same_object_while_it_speaks() -> None:
    remotes = Remotes(4, Dice(), 0)
    first = remotes.add(peer(1), 0)
    for port in range(2, 4):
        remotes.add(peer(port), 0)
    assert remotes.add(peer(1), 0) is first


def test_event_for_a_ticket_of_the_past_says_nothing() -> None:
    stage = Stage()
    stage.request(message.GET, "mq/t", pairs=[(option.OBSERVE, b"")], token=b"ob")
    [watch] = stage.watches
    stage.request(message.GET, "mq/t", pairs=[(option.OBSERVE, b"\x01")], token=b"ob")
    data = stage.publish("t", b"1")
    stage.endpoint.answer(WatchedMessages(watch.ticket, [data]), stage.now)
    assert stage.out() == []
