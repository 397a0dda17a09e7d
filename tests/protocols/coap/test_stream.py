"""CoAP over TCP and WebSockets (RFC 8323): signals, framing, requests, blocks, observation, and what ends a connection."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from domain.access.access import Authority
from domain.access.oscore import OscoreContexts
from domain.client.mqtt_session import AccessRevoked
from domain.command import Command, Disconnected
from domain.errors import ErrorCode, Failure
from protocols.coap.adapter import CoapStreamAdapter
from protocols.coap.connection import CoapConnection
from protocols.coap.message import message, option, signal
from protocols.coap.message.frame import Frame, Framing, StreamFraming, WebSocketFraming
from protocols.coap.message.message import Pairs
from tests.protocols.coap.stage import SECOND, Stage, peer

HELLO = b"\x00\xe1"


class Wire:
    """A connection in the place of the endpoint of a stage."""

    def __init__(self, connection: CoapConnection) -> None:
        self.connection = connection
        self.answer = connection.answer
        self.deadline = connection.deadline
        self.expire = connection.expire

    def receive(self, data: bytes, _peer: object, now: int) -> Sequence[Command]:
        return self.connection.receive(data, now)

    def outgoing(self) -> list[tuple[bytes, tuple[str, int]]]:
        """Nothing: `StreamStage.frames` takes what is to be written."""
        return []


class StreamStage(Stage):
    """A connection, and its gateway.

    ended    reasons of Disconnected
    """

    def __init__(
        self, websocket: bool = False, hello: bool = True, authority: Authority | None = None,
        contexts: OscoreContexts | None = None, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(authority, contexts, **options)
        self.adapter = CoapStreamAdapter(self.setting, self.config)
        adapter = self.adapter.over_websockets if websocket else self.adapter
        self.connection = adapter.connect(peer(), self.now)
        self.endpoint = Wire(self.connection)  # type: ignore[assignment]
        self.client: Framing = WebSocketFraming() if websocket else StreamFraming(1 << 24)
        self.ended: list[str] = []
        self.greeting = self.frames()
        if hello:
            self.send(signal.CSM)

    def frames(self) -> list[Frame]:
        for data in self.connection.outgoing():
            self.client.feed(data)
        return list(iter(self.client.take, None))

    def push_bytes(self, data: bytes) -> list[Frame]:
        self.carry_out(self.connection.receive(data, self.now))
        return self.frames()

    def send(
        self, code: int, path: str = "", payload: bytes = b"", token: bytes = b"tk", pairs: Pairs | None = None,
        query: Sequence[str] = (),
    ) -> list[Frame]:  # fmt: skip
        options: Pairs = [(option.URI_PATH, level.encode()) for level in path.split("/") if level]
        options += [(option.URI_QUERY, text.encode()) for text in query] + (pairs or [])
        return self.push_bytes(self.client.encode(code, token, message.join(options), payload))

    def wait(self, seconds: float) -> list[Frame]:
        """Advance the virtual clock, and call `expire` at each deadline."""
        end = self.now + int(seconds * SECOND)
        while (due := self.connection.deadline()) is not None and due <= end:
            self.now = max(self.now, due)
            self.carry_out(self.connection.expire(self.now))
        self.now = end
        return self.frames()

    def _handle(self, command: Command) -> None:
        if isinstance(command, Disconnected):
            self.ended.append(command.reason)
        else:
            super()._handle(command)


def options_of(frame: Frame) -> Pairs:
    found = message.split(frame.rest, 0)
    assert found is not None
    return found[0]


def payload_of(frame: Frame) -> bytes:
    found = message.split(frame.rest, 0)
    assert found is not None
    return frame.rest[found[1] + 1 :]


def of(frame: Frame, number: int) -> list[bytes]:
    return [value for key, value in options_of(frame) if key == number]


def large_csm(stage: StreamStage, size: int = 1 << 20) -> None:
    stage.send(signal.CSM, pairs=[(signal.MAX_MESSAGE_SIZE, message.uint(size)), (signal.BLOCK_WISE_TRANSFER, b"")])


@pytest.mark.parametrize("websocket", [False, True])
def test_our_csm_is_the_first_message_and_tells_what_we_take(websocket: bool) -> None:
    stage = StreamStage(websocket, hello=False)
    (csm,) = stage.greeting
    assert csm.code == signal.CSM
    assert of(csm, signal.MAX_MESSAGE_SIZE) == [message.uint(stage.config.message_bytes_max)]
    assert of(csm, signal.BLOCK_WISE_TRANSFER) == [b""]


@pytest.mark.parametrize("websocket", [False, True])
def test_requests_are_answered_with_their_tokens(websocket: bool) -> None:
    stage = StreamStage(websocket)
    assert stage.send(message.GET, "mq/site/a")[0].code == message.NOT_FOUND
    assert stage.send(message.PUT, "mq/site/a", b"21.5", b"one")[0].token == b"one"
    (value,) = stage.send(message.GET, "mq/site/a", token=b"12345678")
    assert (value.code, value.token, payload_of(value)) == (message.CONTENT, b"12345678", b"21.5")
    (created,) = stage.send(message.POST, "mq/site/a", b"x", b"")
    assert created.code == message.CREATED
    assert stage.log[-1][0].born_host == peer().born_host


def test_any_split_of_the_bytes_gives_the_same_requests() -> None:
    client = StreamFraming(1 << 24)
    sent = HELLO + b"".join(
        client.encode(message.POST, b"t" * (size % 9), message.join([(option.URI_PATH, b"mq"), (option.URI_PATH, b"s")]), body)
        for size in (0, 1, 12, 13, 268, 269, 300, 65_804, 65_805, 70_000)
        for body in [b"b" * max(0, size - 6)]
    )
    chance = random.Random(5)
    for _ in range(5):
        stage = StreamStage(hello=False)
        at, answers = 0, 0
        while at < len(sent):
            end = at + chance.choice((1, 2, 7, 1_000, 40_000))
            answers += len(stage.push_bytes(sent[at:end]))
            at = end
        assert answers == 10
        assert [len(stored.body) for stored, _ in stage.log] == [
            max(0, n - 6) for n in (0, 1, 12, 13, 268, 269, 300, 65_804, 65_805, 70_000)
        ]
        assert not stage.ended


def test_first_message_must_be_a_csm() -> None:
    stage = StreamStage(hello=False)
    (abort,) = stage.send(message.GET, "mq/site/a")
    assert (abort.code, payload_of(abort)) == (signal.ABORT, b"the first message is not a CSM")
    assert stage.ended == ["no-csm"]
    assert stage.connection.closed
    assert not stage.commands[:-1]


def test_csm_must_come_in_time_however_slowly_bytes_drip() -> None:
    stage = StreamStage(hello=False)
    drip = b"\xf0\x00\x00\x00\x10\xe1" + b"\x00" * 60
    for at in range(20):
        stage.push_bytes(drip[at : at + 1])
        got = stage.wait(1)
        if stage.ended:
            break
    assert stage.ended == ["handshake-timeout"]
    assert got[-1].code == signal.ABORT
    assert at == 9


def test_an_incomplete_message_has_ten_seconds() -> None:
    stage = StreamStage()
    data = stage.client.encode(message.PUT, b"t", message.join([(option.URI_PATH, b"mq")]), b"x" * 100)
    for at in range(20):
        stage.push_bytes(data[at : at + 1])
        stage.wait(1)
        if stage.ended:
            break
    assert stage.ended == ["frame-timeout"]
    assert at == 9


@pytest.mark.parametrize(
    ("sent", "word"),
    [
        (b"\xf0" + (1 << 24).to_bytes(4, "big") + b"\x02", "malformed"),  # too long
        (b"\xf0\xff\xff\xff\xff\x02", "malformed"),
        (b"\x09\x01", "malformed"),  # a token of nine bytes
        (b"\x0f\x01", "malformed"),
        (b"\x0d\x01\x00" + bytes(13), "malformed"),  # a token of thirteen (RFC 8974)
        (b"\x10\x01\xf0", "malformed"),  # delta 15
        (b"\x10\x01\xff", "malformed"),  # a marker and nothing
        (b"\x10\xe1\x10", "signal-option"),  # CSM with option 1
        (b"\x10\xe2\x30", "signal-option"),  # Ping with option 3
    ],
)
def test_bad_messages_are_told_by_abort_and_end_the_connection(sent: bytes, word: str) -> None:
    stage = StreamStage()
    (abort,) = stage.push_bytes(sent)
    assert abort.code == signal.ABORT
    assert payload_of(abort)
    assert stage.ended == [word]
    assert stage.connection.receive(b"more", stage.now) == ()


def test_a_bad_csm_option_is_named() -> None:
    stage = StreamStage()
    (abort,) = stage.send(signal.CSM, pairs=[(9, b"")])
    assert of(abort, signal.BAD_CSM_OPTION) == [b"\x09"]


@pytest.mark.parametrize("sent", [b"", b"\x10", b"\x0c", b"\x02\x01\x00"])
def test_bad_messages_of_a_websocket(sent: bytes) -> None:
    stage = StreamStage(websocket=True)
    stage.connection._framing.feed(sent)
    stage.carry_out(stage.connection._take_messages(stage.now))
    assert stage.ended == ["malformed"]
    assert stage.frames()[-1].code == signal.ABORT


def test_empty_messages_responses_and_unknown_elective_options_are_ignored() -> None:
    stage = StreamStage()
    assert stage.push_bytes(b"\x00\x00") == []
    assert stage.push_bytes(b"\x00\x45") == []
    assert stage.send(signal.CSM, pairs=[(100, b"x")]) == []
    assert not stage.connection.closed
    assert stage.refused == ["ignored", "ignored"]


def test_ping_is_answered_and_custody_waits_for_the_requests_before_it() -> None:
    stage = StreamStage()
    (pong,) = stage.send(signal.PING, token=b"p")
    assert (pong.code, pong.token, of(pong, signal.CUSTODY)) == (signal.PONG, b"p", [])
    stage.hold = True
    stage.send(message.POST, "mq/site/a", b"1", b"a")
    assert stage.send(signal.PING, token=b"c", pairs=[(signal.CUSTODY, b"")]) == []
    stage.send(message.POST, "mq/site/a", b"2", b"b")
    first, second = stage.held
    stage.held = [second]
    stage._handle(first)
    answered, pong = stage.frames()
    assert (answered.token, pong.token, of(pong, signal.CUSTODY)) == (b"a", b"c", [b""])


def test_silent_peer_is_asked_and_then_left() -> None:
    stage = StreamStage(idle_seconds=60)
    assert [frame.code for frame in stage.wait(61)] == [signal.PING]
    stage.send(signal.PONG)
    assert [frame.code for frame in stage.wait(61)] == [signal.PING]
    assert [frame.code for frame in stage.wait(31)] == [signal.ABORT]
    assert stage.ended == ["keep-alive"]


def test_drain_releases_and_closes_with_the_last_response() -> None:
    stage = StreamStage()
    stage.hold = True
    stage.send(message.POST, "mq/site/a", b"1")
    stage.carry_out(stage.connection.drain(stage.now))
    assert [frame.code for frame in stage.frames()] == [signal.RELEASE]
    assert not stage.connection.closed
    stage.play()
    assert [frame.code for frame in stage.frames()] == [message.CREATED]
    assert stage.connection.closed


def test_release_and_abort_of_the_peer() -> None:
    stage = StreamStage()
    stage.send(signal.RELEASE)
    assert (stage.ended, stage.connection.closed) == (["goodbye"], True)
    stage = StreamStage()
    assert stage.send(signal.ABORT) == []
    assert (stage.ended, stage.connection.closed) == (["aborted-by-peer"], True)


def test_large_value_is_one_message_when_the_peer_takes_it() -> None:
    stage = StreamStage()
    body = bytes(range(256)) * 40
    stage.publish("site/big", body, retain=True)
    (first,) = stage.send(message.GET, "mq/site/big")
    assert of(first, option.BLOCK2) == [b"\x0e"]  # block 0 of 1,024 bytes, and more
    large_csm(stage)
    (whole,) = stage.send(message.GET, "mq/site/big")
    assert (of(whole, option.BLOCK2), payload_of(whole)) == ([], body)


def test_bert_reads_several_blocks_in_one_message() -> None:
    stage = StreamStage()
    body = random.Random(1).randbytes(10_000)
    stage.publish("site/big", body, retain=True)
    assert stage.send(message.GET, "mq/site/big", pairs=[(option.BLOCK2, b"\x07")])[0].code == message.BAD_REQUEST
    large_csm(stage, 5_000)
    got, number, more = b"", 0, True
    while more:
        (part,) = stage.send(message.GET, "mq/site/big", pairs=[(option.BLOCK2, message.uint(number << 4 | 7))])
        (value,) = of(part, option.BLOCK2)
        block = int.from_bytes(value, "big")
        assert (block >> 4, block & 7) == (number, 7)
        got += payload_of(part)
        more = bool(block & 8)
        assert not more or len(payload_of(part)) == 4096
        number += len(payload_of(part)) // 1024
    assert got == body


def test_bert_sends_several_blocks_in_one_message() -> None:
    stage = StreamStage()
    large_csm(stage)
    body = random.Random(2).randbytes(9_000)
    (reply,) = stage.send(message.PUT, "mq/site/b", body[:4096], pairs=[(option.BLOCK1, message.uint(0 << 4 | 8 | 7))])
    assert (reply.code, of(reply, option.BLOCK1)) == (message.CONTINUE, [b"\x0f"])
    (reply,) = stage.send(message.PUT, "mq/site/b", body[4096:8192], pairs=[(option.BLOCK1, message.uint(4 << 4 | 8 | 7))])
    assert reply.code == message.CONTINUE
    (reply,) = stage.send(message.PUT, "mq/site/b", body[8192:], pairs=[(option.BLOCK1, message.uint(8 << 4 | 7))])
    assert reply.code == message.CREATED
    assert stage.log[-1][0].body == body
    (reply,) = stage.send(message.PUT, "mq/site/b", body[:1000], pairs=[(option.BLOCK1, message.uint(0 << 4 | 8 | 7))])
    assert reply.code == message.BAD_REQUEST


def test_body_above_the_limit_is_refused_with_size1() -> None:
    stage = StreamStage(block1_bytes_max=1_000)
    (reply,) = stage.send(message.PUT, "mq/site/b", b"x" * 1_001)
    assert (reply.code, of(reply, option.SIZE1)) == (message.TOO_LARGE, [message.uint(1_000)])
    assert not stage.connection.closed


def test_observer_gets_every_message_in_order() -> None:
    stage = StreamStage()
    (first,) = stage.send(message.GET, "mq/site/live", token=b"ob", pairs=[(option.OBSERVE, b"")])
    assert (first.code, len(of(first, option.OBSERVE))) == (message.CONTENT, 1)
    for number in range(5):
        stage.publish("site/live", b"%d" % number)
    got = stage.frames()
    assert [(frame.token, payload_of(frame)) for frame in got] == [(b"ob", b"%d" % number) for number in range(5)]
    stage.send(message.GET, "mq/site/live", token=b"ob", pairs=[(option.OBSERVE, b"\x01")])
    assert not stage.watches


def test_notifications_of_two_connections_do_not_mix() -> None:
    stage = StreamStage()
    stage.send(message.GET, "mq/site/live", token=b"ob", pairs=[(option.OBSERVE, b"")])
    other = stage.adapter.connect(peer(41_000), stage.now)
    other.receive(HELLO, stage.now)
    commands = other.receive(
        stage.client.encode(message.GET, b"x", message.join([(11, b"mq"), (11, b"site"), (11, b"live"), (6, b"")]), b""),
        stage.now,
    )
    assert len(commands) == 2  # a Watch of its own: events come to the connection that asked
    assert stage.adapter._streams.observations.count == 2
    other.receive(b"", stage.now)
    assert stage.adapter._streams.observations.count == 1
    stage.publish("site/live", b"1")
    assert [payload_of(frame) for frame in stage.frames()] == [b"1"]


def test_a_group_gives_one_message_where_there_are_no_acknowledgements() -> None:
    stage = StreamStage()
    stage.queue = [stage.publish("t", b"1")]
    (answer,) = stage.send(message.GET, "mq/t", pairs=[(option.OBSERVE, b"")], query=["group=g"])
    assert (payload_of(answer), of(answer, option.OBSERVE), len(of(answer, option.LOCATION_QUERY))) == (b"1", [], 2)
    assert stage.adapter._streams.observations.count == 0


def test_backlog_of_a_peer_that_does_not_read_is_bounded() -> None:
    stage = StreamStage(backlogs_bytes_max=100_000)
    stage.send(message.GET, "mq/site/live", token=b"ob", pairs=[(option.OBSERVE, b"")])
    for number in range(1_000):  # nobody calls `outgoing`
        stage.publish("site/live", b"%d" % number + b"x" * 1_000)
    observations = stage.adapter._streams.observations
    assert observations.audience.bytes <= 100_000
    got = [payload_of(frame) for frame in stage.frames()]
    got += [payload_of(frame) for frame in stage.wait(0)]
    assert got[-1].startswith(b"999x")
    assert observations.lost == 1_000 - len(got)
    assert observations.audience.bytes == 0


def test_requests_wait_while_too_many_are_in_execution() -> None:
    stage = StreamStage(requests_stream_max=4)
    stage.hold = True
    data = stage.client.encode(message.POST, b"t", message.join([(option.URI_PATH, b"mq"), (option.URI_PATH, b"s")]), b"1")
    stage.push_bytes(data * 10)
    assert (len(stage.held), stage.connection.reading) == (4, False)
    stage.hold = False
    stage.play()
    stage.wait(0)
    assert len(stage.log) == 10
    assert stage.connection.reading


def test_requests_that_wait_are_executed_before_the_end_of_the_stream() -> None:
    """What was received is executed: the end of the stream is behind it."""
    stage = StreamStage(requests_stream_max=4)
    stage.hold = True
    data = stage.client.encode(message.POST, b"t", message.join([(option.URI_PATH, b"mq"), (option.URI_PATH, b"s")]), b"1")
    stage.push_bytes(data * 10)
    assert list(stage.connection.receive(b"", stage.now)) == []
    assert (stage.connection.unhandled, stage.connection.closed) == (True, False)
    stage.hold = False
    stage.play()
    stage.wait(0)
    assert len(stage.log) == 10
    assert (stage.connection.unhandled, stage.connection.closed) == (False, True)


def test_many_questions_for_large_values_do_not_pile_up_their_answers() -> None:
    stage = StreamStage()
    large_csm(stage, 16 << 20)
    body = bytes(1_000_000)
    stage.publish("site/big", body, retain=True)
    options = message.join([(option.URI_PATH, b"mq"), (option.URI_PATH, b"site"), (option.URI_PATH, b"big")])
    stage.carry_out(stage.connection.receive(stage.client.encode(message.GET, b"t", options, b"") * 256, stage.now))
    assert stage.connection._replier.unwritten <= 33 * len(body)  # nobody has taken them
    assert not stage.connection.reading
    answered = 0
    for _ in range(300):
        got = stage.frames()
        answered += len(got)
        assert all(len(frame.rest) > len(body) for frame in got)
        stage.carry_out(stage.connection.expire(stage.now))
    assert answered == 256
    assert stage.connection.reading


def test_no_response_is_heeded() -> None:
    stage = StreamStage()
    assert stage.send(message.PUT, "mq/site/a", b"x", pairs=[(option.NO_RESPONSE, b"\x02")]) == []
    assert stage.send(message.GET, "mq/site/none", pairs=[(option.NO_RESPONSE, b"\x02")])[0].code == message.NOT_FOUND
    assert len(stage.log) == 1


def test_unknown_critical_option_is_told() -> None:
    stage = StreamStage()
    assert stage.send(message.GET, "mq/site/a", pairs=[(2049, b"x")])[0].code == message.BAD_OPTION
    assert not stage.connection.closed


def test_revoked_access_is_told() -> None:
    stage = StreamStage()
    stage.connection.answer(AccessRevoked(Failure(ErrorCode.NOT_AUTHENTICATED, "gone")), stage.now)
    (abort,) = stage.frames()
    assert (abort.code, payload_of(abort)) == (signal.ABORT, b"gone")


def test_refusals_are_cut_to_what_the_peer_takes() -> None:
    stage = StreamStage()
    stage.send(signal.CSM, pairs=[(signal.MAX_MESSAGE_SIZE, b"\x20")])
    stage.refuse = Failure(ErrorCode.OVERLOADED, "x" * 1_000)
    (reply,) = stage.send(message.PUT, "mq/site/a", b"x")
    assert reply.code == message.UNAVAILABLE
    assert len(reply.rest) + 2 + len(reply.token) <= 32


def test_random_bytes_never_raise() -> None:
    chance = random.Random(9)
    for _ in range(300):
        stage = StreamStage(hello=chance.random() < 0.8)
        for _ in range(5):
            stage.push_bytes(chance.randbytes(chance.randrange(1, 60)))
        stage.carry_out(stage.connection.receive(b"", stage.now))
        assert stage.connection.closed
        assert stage.adapter._streams.observations.count == 0
