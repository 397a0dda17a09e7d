"""Observation: RFC 7641, ETSI TD_COAP_OBS_*."""

from __future__ import annotations

from itertools import pairwise

import pytest

from domain.command import QueryLatest, Unwatch, Watch
from domain.errors import ErrorCode, Failure
from domain.event import Refused, WatchedMessages
from protocols.coap.endpoint import NOTIFIED_MAX
from protocols.coap.message import message, option
from protocols.coap.message.message import Packet
from protocols.coap.shared_limits import VALUE_BYTES
from tests.protocols.coap.stage import Stage, peer, values

A = "mq/sensors/a"
REGISTER = [(option.OBSERVE, b"")]
CANCEL = [(option.OBSERVE, b"\x01")]


def registered(stage: Stage, token: bytes = b"ob", port: int = 40_000) -> Packet:
    """Register, and verify the address by the ACK for the response when the server asks for that."""
    *_, answer = stage.request(message.GET, A, pairs=REGISTER, token=token, source=peer(port))
    assert message.name(answer.code) == "2.05"
    assert len(values(answer, option.OBSERVE)) == 1
    if answer.kind == message.CON:
        assert acknowledge(stage, answer, port) == []
    return answer


def sequence(packet: Packet) -> int:
    return int.from_bytes(values(packet, option.OBSERVE)[0], "big")


def acknowledge(stage: Stage, packet: Packet, port: int = 40_000) -> list[Packet]:
    return stage.push(message.empty(message.ACK, packet.mid), peer(port))


def drained(stage: Stage) -> list[Packet]:
    """All notifications of one observer, each acknowledged before the next one is sent."""
    found = []
    packets = stage.out()
    while packets:
        [note] = packets
        found.append(note)
        packets = acknowledge(stage, note)
    return found


def test_registration_answers_with_the_value_and_its_etag() -> None:  # TD_COAP_OBS_01
    stage = Stage()
    stage.publish("sensors/a", b"now", retain=True)
    answer = registered(stage)
    assert answer.payload == b"now"
    assert values(answer, option.ETAG)


def test_registration_without_a_value_is_empty_and_has_no_etag() -> None:
    stage = Stage()
    answer = registered(stage)
    assert (answer.payload, values(answer, option.ETAG)) == (b"", [])
    assert stage.watches[0].pattern == "sensors/a"


def test_every_message_is_a_notification_in_order() -> None:  # TD_COAP_OBS_09, 7641-4.2; NSTART 1, 7252-4.7
    stage = Stage()
    last = sequence(registered(stage))
    stage.publish("sensors/a", b"1", retain=True)
    stage.publish("sensors/a", b"2")
    stage.publish("sensors/a", b"3")
    stage.publish("sensors/b", b"other path")
    notes = drained(stage)
    assert {(note.kind, message.name(note.code), note.token) for note in notes} == {(message.CON, "2.05", b"ob")}
    assert all(before < after for before, after in pairwise([last, *map(sequence, notes)]))
    assert [note.payload for note in notes] == [b"1", b"2", b"3"]


@pytest.mark.parametrize(("code", "word"), [(ErrorCode.NOT_ALLOWED, "4.03"), (ErrorCode.NOT_AUTHENTICATED, "4.01")])
def test_a_watch_that_is_ended_is_told_so_and_nothing_after_that(code: ErrorCode, word: str) -> None:  # 7641-4.2
    stage = Stage()
    registered(stage)
    stage.publish("sensors/a", b"1")
    [first] = stage.out()
    stage.publish("sensors/a", b"2")
    (ticket,) = [watch.ticket for watch in stage.watches]
    stage.endpoint.answer(Refused(ticket, Failure(code, "no more")), stage.now)
    assert stage.out() == [], "one confirmable message at a time"
    [note] = acknowledge(stage, first)
    assert (note.kind, message.name(note.code), note.token, values(note, option.OBSERVE)) == (message.CON, word, b"ob", [])
    stage.publish("sensors/a", b"3")
    assert acknowledge(stage, note) == []
    assert stage.endpoint.observations.count == 0


def test_deregistration_by_observe_1() -> None:  # TD_COAP_OBS_12, 7641-3.6
    stage = Stage()
    registered(stage)
    [answer] = stage.request(message.GET, A, pairs=CANCEL, token=b"ob")
    assert message.name(answer.code) == "4.04"
    assert values(answer, option.OBSERVE) == []
    stage.publish("sensors/a", b"1")
    assert stage.out() == []
    assert stage.watches == []


def test_reset_ends_the_observation() -> None:  # TD_COAP_OBS_06, 7641-3.6
    stage = Stage()
    registered(stage)
    stage.publish("sensors/a", b"1")
    [note] = stage.out()
    stage.push(message.empty(message.RST, note.mid))
    assert isinstance(stage.commands[-1], Unwatch)
    assert stage.watches == []
    assert stage.endpoint.observations.count == 0


def test_silence_ends_all_observations_of_the_peer() -> None:  # TD_COAP_OBS_05, 7641-4.5
    stage = Stage()
    registered(stage, b"o1")
    registered(stage, b"o2")
    registered(stage, b"o3", 40_001)
    stage.publish("sensors/a", b"1")
    [first, other] = stage.out()
    acknowledge(stage, other, 40_001)
    again = stage.advance(200)
    assert [note.mid for note in again[:4]] == [first.mid] * 4
    assert len(stage.watches) == 1
    assert stage.endpoint.observations.count == 1


def test_retransmission_doubles_four_times() -> None:  # 7252-4.2
    stage = Stage()
    registered(stage)
    stage.publish("sensors/a", b"1")
    stage.out()
    at = [place for place in range(1200) if stage.advance(0.1)]
    assert [later - earlier for earlier, later in pairwise(at)] == [50, 100, 200]
    assert at[0] in (24, 25)


def test_registering_again_is_the_same_observation() -> None:  # 7641-4.1
    stage = Stage()
    first = registered(stage)
    again = registered(stage)
    assert sequence(again) > sequence(first)
    assert len(stage.watches) == 1
    assert len([command for command in stage.commands if isinstance(command, Watch)]) == 1


def test_the_same_token_for_another_path_replaces() -> None:
    stage = Stage()
    registered(stage)
    stage.request(message.GET, "mq/sensors/b", pairs=REGISTER, token=b"ob")
    assert [watch.pattern for watch in stage.watches] == ["sensors/b"]


def test_message_between_watch_and_answer_comes_once_and_after() -> None:
    stage = Stage()
    stage.hold = True
    stage.request(message.GET, A, pairs=REGISTER, token=b"ob")
    watch, latest = stage.held
    assert isinstance(watch, Watch)
    assert isinstance(latest, QueryLatest)
    stage.hold, stage.held = False, []
    stage._handle(watch)
    stage.publish("sensors/a", b"1", retain=True)
    stage.publish("sensors/a", b"2")
    assert stage.out() == []
    stage._handle(latest)
    _, answer = stage.out()
    [note] = acknowledge(stage, answer)
    assert (answer.payload, note.payload) == (b"1", b"2")
    assert sequence(note) > sequence(answer)


def test_observe_of_an_illegal_path_is_an_error_without_observe() -> None:
    stage = Stage()
    [answer] = stage.request(message.GET, "mq/a+b", pairs=REGISTER)
    assert message.name(answer.code) == "4.00"
    assert values(answer, option.OBSERVE) == []
    assert stage.watches == []


def test_more_observers_than_allowed_are_answered_once() -> None:  # 7641-4.1
    stage = Stage(observers_peer_max=1)
    registered(stage, b"o1")
    [answer] = stage.request(message.GET, A, pairs=REGISTER, token=b"o2")
    assert values(answer, option.OBSERVE) == []


def test_observer_that_is_behind_loses_the_oldest() -> None:
    stage = Stage(backlog_max=3)
    registered(stage)
    for number in range(8):
        stage.publish("sensors/a", b"%d" % number)
    assert [note.payload for note in drained(stage)] == [b"0", b"5", b"6", b"7"]
    assert stage.endpoint.observations.lost == 4


def test_another_format_ends_the_observation() -> None:  # TD_COAP_OBS_08, 7641-4.2
    stage = Stage()
    registered(stage)
    for body, stored in [
        (b"21", b"HG_CONTENT_TYPE\x01text/plain\x02"), (b"22", b""), (b"{}", b"HG_CONTENT_TYPE\x01application/json\x02"),
        (b"23", b"HG_CONTENT_TYPE\x01text/plain\x02"),
    ]:  # fmt: skip
        stage.publish("sensors/a", body, stored=stored)
    seen = [(message.name(note.code), note.payload) for note in drained(stage)]
    assert seen == [("2.05", b"21"), ("2.05", b"22"), ("4.06", b"")]
    assert stage.watches == []
    assert stage.endpoint.observations.count == 0


def test_another_format_than_accepted_ends_the_observation() -> None:
    stage = Stage()
    _, answer = stage.request(message.GET, A, pairs=[*REGISTER, (option.ACCEPT, bytes([50]))])
    assert message.name(answer.code) == "2.05"
    acknowledge(stage, answer)
    stage.publish("sensors/a", b"{}", stored=b"HG_CONTENT_TYPE\x01application/json\x02")
    [note] = stage.out()
    assert note.payload == b"{}"
    acknowledge(stage, note)
    stage.publish("sensors/a", b"text", stored=b"HG_CONTENT_TYPE\x01text/plain\x02")
    [note] = stage.out()
    assert (message.name(note.code), values(note, option.OBSERVE)) == ("4.06", [])
    stage.push(message.empty(message.RST, note.mid))
    assert stage.watches == []


def test_plain_get_does_not_end_the_observation() -> None:  # TD_COAP_OBS_10
    stage = Stage()
    registered(stage)
    stage.request(message.GET, A, token=b"other")
    stage.publish("sensors/a", b"1")
    assert [note.payload for note in stage.out()] == [b"1"]


def test_interest_is_confirmed_once_a_day() -> None:  # 7641-4.5
    stage = Stage()
    registered(stage)
    assert stage.advance(23 * 3600) == []
    [note, *_] = stage.advance(3 * 3600)
    assert (note.kind, note.token) == (message.CON, b"ob")
    assert stage.endpoint.observations.count == 0


def test_message_ids_do_not_come_again_within_their_lifetime() -> None:  # 7252-4.4
    stage = Stage()
    registered(stage)
    mids: set[int] = set()
    count = 0
    for _ in range(70_000):
        stage.publish("sensors/a", b"1")
        packets = stage.out()
        if not packets:
            break
        mids.add(packets[0].mid)
        count += 1
        acknowledge(stage, packets[0])
        stage.log.clear()
    assert count == len(mids)
    assert 61_440 <= count <= 65_536
    [note, *_] = stage.advance(250)
    assert note.kind == message.CON


def observers(stage: Stage, count: int, path: str = A) -> None:
    """Registered and verified observers on ports of their own; their networks differ."""
    for number in range(count):
        source = peer(40_000, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
        *_, answer = stage.request(message.GET, path, pairs=REGISTER, token=b"ob", source=source)
        assert values(answer, option.OBSERVE)
        stage.push(message.empty(message.ACK, answer.mid), source)


def test_observers_of_a_path_share_one_watch() -> None:
    stage = Stage()
    registered(stage, b"o1")
    registered(stage, b"o2")
    registered(stage, b"o3", 40_001)
    assert len(stage.watches) == 1
    for token, port in ((b"o1", 40_000), (b"o3", 40_001)):
        stage.request(message.GET, A, pairs=CANCEL, token=token, source=peer(port))
    assert len(stage.watches) == 1
    stage.publish("sensors/a", b"1")
    assert [note.token for note in stage.out()] == [b"o2"]
    stage.request(message.GET, A, pairs=CANCEL, token=b"o2")
    assert stage.watches == []
    assert not stage.endpoint.observations.feeds


def test_a_peer_registers_few_times_on_one_path() -> None:
    stage = Stage()
    registered(stage, b"o0")
    answers = [stage.request(message.GET, A, pairs=REGISTER, token=b"o%d" % number)[-1] for number in range(20)]
    assert [bool(values(answer, option.OBSERVE)) for answer in answers] == [True] * 8 + [False] * 12
    assert stage.endpoint.counts["observers"] == 12


def test_one_network_leaves_observations_to_the_others() -> None:
    stage = Stage(observers_network_max=5, observers_max=8)
    answers = [stage.request(message.GET, A, pairs=REGISTER, source=peer(port))[-1] for port in range(1, 21)]
    assert sum(bool(values(answer, option.OBSERVE)) for answer in answers) == 5
    [*_, other] = stage.request(message.GET, A, pairs=REGISTER, source=peer(1, "10.0.0.77"))
    assert values(other, option.OBSERVE)


def test_notifications_of_a_turn_are_few_and_all_come() -> None:
    stage = Stage()
    observers(stage, 3 * NOTIFIED_MAX)
    record = stage.publish("elsewhere", b"1")
    stage.endpoint.answer(WatchedMessages(stage.watches[0].ticket, [record]), stage.now)
    turns = [len(stage.out())]
    while stage.endpoint.deadline() == 0:
        assert stage.endpoint.expire(stage.now) == []
        turns.append(len(stage.out()))
    assert turns == [NOTIFIED_MAX] * 3


def test_messages_cost_nothing_for_each_observer_that_is_behind() -> None:
    stage = Stage(backlog_max=10)
    observers(stage, 100)
    stage.publish("sensors/a", b"first")
    stage.settle()
    assert len(stage.out()) == 100
    for number in range(1_000):
        record = stage.publish("elsewhere", b"%d" % number)
        stage.endpoint.answer(WatchedMessages(stage.watches[0].ticket, [record]), stage.now)
        assert not stage.endpoint.observations.ready
    assert stage.out() == []
    [feed] = stage.endpoint.observations.feeds.values()
    assert len(feed.values) == 10


def test_values_are_kept_once_and_freed_when_all_have_them() -> None:
    stage = Stage()
    observers(stage, 10)
    body = b"v" * 1_000
    stage.publish("sensors/a", body)
    notes = stage.out()
    stage.publish("sensors/a", body)
    observations = stage.endpoint.observations
    assert observations.audience.bytes == 2 * (len(body) + VALUE_BYTES)
    for number, note in enumerate(notes):
        source = peer(40_000, f"10.0.0.{number}")
        [again] = stage.push(message.empty(message.ACK, note.mid), source)
        assert stage.push(message.empty(message.ACK, again.mid), source) == []
    assert (observations.audience.bytes, len(observations.audience.behind)) == (0, 0)


def test_paths_that_wait_for_silent_observers_do_not_take_all_memory() -> None:
    stage = Stage(backlogs_bytes_max=40_000)
    for number in range(50):
        path = f"mq/sensors/{number}"
        *_, answer = stage.request(message.GET, path, pairs=REGISTER, token=b"%d" % number)
        stage.push(message.empty(message.ACK, answer.mid))
    registered(stage, b"ok", 50_000)
    seen = []
    for at in range(200):
        for number in range(50):
            stage.publish(f"sensors/{number}", b"v" * 500)
        stage.publish("sensors/a", b"%d" % at)
        while notes := [note for note in stage.out() if note.token == b"ok"]:
            seen += [note.payload for note in notes]
            stage.push(message.empty(message.ACK, notes[0].mid), peer(50_000))
        assert stage.endpoint.observations.audience.bytes <= 40_000
    assert seen == [b"%d" % at for at in range(200)], "the observer that keeps up loses nothing"
