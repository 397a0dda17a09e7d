"""What protected requests are answered with (OSCORE, RFC 8613): numbers, notifications, blocks, and the same over streams."""

from __future__ import annotations

from typing import Any

import pytest

from domain.access.principal import GATEWAY
from domain.admin.oscore import RUN_BITS, ReserveOscoreRun
from domain.command import Receive, Send
from domain.errors import ErrorCode, Failure
from protocols.coap.adapter import CoapStreamAdapter
from protocols.coap.message import message, option
from protocols.coap.message.frame import StreamFraming
from protocols.coap.oscore import association as associations
from protocols.coap.oscore import seal
from protocols.coap.oscore.seal import OVERHEAD
from tests.protocols.coap.oscore_device import Device, context
from tests.protocols.coap.oscore_scene import UNAUTHORIZED, Scene, StreamScene
from tests.protocols.coap.stage import peer, values
from tests.protocols.coap.test_stream import HELLO, large_csm

# Numbers of responses


def test_no_request_is_challenged_before_a_run_is_reserved() -> None:
    scene = Scene()
    scene.stage.hold = True
    assert scene.stage.push(scene.datagram(message.POST, "mq/s/a", b"1", token=b"1")) == []
    assert scene.stage.push(scene.datagram(message.POST, "mq/s/a", b"2", token=b"2")) == []
    assert [type(each) for each in scene.stage.held] == [ReserveOscoreRun]
    (waiting,) = scene.stage.held
    assert waiting.principal is GATEWAY
    scene.stage.hold = False
    scene.stage.play_held()
    answers = [scene.device.read(raw) for raw in scene.stage.out_raw()]
    assert [each.code for each in answers] == [UNAUTHORIZED, UNAUTHORIZED]
    numbers = {each.outer.opt.oscore for each in answers}
    assert len(numbers) == 2


def test_a_slow_reservation_is_answered_separately() -> None:
    scene = Scene()
    scene.stage.hold = True
    assert scene.stage.push(scene.datagram(message.POST, "mq/s/a", b"1")) == []
    (ack,) = scene.stage.advance(1.5)
    assert (ack.kind, ack.code) == (message.ACK, 0)
    scene.stage.hold = False
    (separate,) = scene.stage.play()
    assert (separate.kind, separate.code) == (message.CON, message.CHANGED)


def test_a_refused_reservation_is_answered_without_protection() -> None:
    scene = Scene()
    scene.stage.refuse = Failure(ErrorCode.STORE_UNAVAILABLE, "the store is away")
    (answer,) = scene.stage.push(scene.datagram(message.POST, "mq/s/a", b"1"))
    assert (answer.code, values(answer, option.MAX_AGE), values(answer, 9)) == (message.UNAVAILABLE, [b"\x02"], [])
    scene.stage.refuse = None
    assert scene.ask(message.POST, "mq/s/a", b"1").code == message.CREATED


def test_numbers_are_reserved_ahead_and_never_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(associations, "NUMBERS", 8)
    monkeypatch.setattr(seal, "AHEAD", 4)
    scene = Scene()
    scene.ask(message.GET, "mq/s/live", observe=0)
    seen: list[bytes] = []
    for number in range(40):
        scene.stage.publish("s/live", b"%d" % number)
        note, packet = scene.note()
        seen += values(packet, 9)
        assert note.payload == b"%d" % number
    assert len(set(seen)) == 40
    assert sorted(seen, key=lambda value: (len(value), value)) == seen
    assert sum(isinstance(each, ReserveOscoreRun) for each in scene.stage.claims) >= 5


def test_a_notification_without_a_number_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(associations, "NUMBERS", 3)
    scene = Scene()
    scene.ask(message.GET, "mq/s/live", observe=0)
    scene.stage.hold = True
    sent = 0
    for number in range(6):
        scene.stage.publish("s/live", b"%d" % number)
        for raw in scene.stage.out_raw():
            sent += 1
            found = message.decode(raw)
            assert found is not None
            scene.stage.carry_out(scene.stage.endpoint.receive(message.empty(message.ACK, found.mid), peer(), scene.stage.now))
    assert sent == 4  # what was left of the first run, and the second one
    scene.stage.hold = False
    scene.stage.play()
    scene.stage.publish("s/live", b"last")
    (raw,) = scene.stage.out_raw()
    assert scene.device.read(raw).payload == b"last"


# Observation and blocks


def test_an_observer_gets_protected_notifications() -> None:
    scene = Scene()
    first = scene.ask(message.GET, "mq/s/live", observe=0)
    assert (first.code, int(first.outer.code), first.outer.opt.observe is not None) == (message.CONTENT, message.CONTENT, True)
    scene.stage.publish("s/live", b"21.5")
    note, packet = scene.note()
    assert (note.code, note.payload) == (message.CONTENT, b"21.5")
    assert b"21.5" not in packet.payload + message.join(packet.options)
    assert values(packet, option.OBSERVE)[0] != b""
    scene.ask(message.GET, "mq/s/live", observe=1)
    scene.stage.publish("s/live", b"22")
    assert scene.stage.out_raw() == []
    assert scene.stage.watches == []


def test_an_observation_is_not_ended_by_who_has_not_the_context() -> None:
    scene = Scene()
    scene.ask(message.GET, "mq/s/live", observe=0)
    scene.stage.request(message.GET, "mq/s/live", token=b"tk", pairs=[(option.OBSERVE, b"\x01")])
    assert scene.stage.endpoint.observations.count == 1
    scene.stage.request(message.GET, "mq/s/live", token=b"tk", pairs=[(option.OBSERVE, b"")])
    assert scene.stage.endpoint.observations.count == 2


def test_observers_of_two_contexts_of_a_user_share_no_watch() -> None:
    scene = Scene()
    scene.ask(message.GET, "mq/s/live", observe=0)
    scene.authority.contexts.users["sensor"] = context(device=b"\x05")
    scene.device = Device(context(device=b"\x05"))
    scene.ask(message.GET, "mq/s/live", token=b"2", observe=0)
    assert len(scene.stage.watches) == 2


def test_observe_that_was_taken_off_on_the_way_does_not_register() -> None:
    scene = Scene()
    scene.ask(message.PUT, "mq/s/live", b"1")
    data = scene.datagram(message.GET, "mq/s/live", observe=0)
    found = message.decode(data)
    assert found is not None
    outer = [pair for pair in found.options if pair[0] != option.OBSERVE]
    bare = message.encode(message.CON, found.code, found.mid, found.token, message.join(outer), found.payload)
    answer = scene.push(bare)
    assert (answer.payload, answer.outer.opt.observe, scene.stage.endpoint.observations.count) == (b"1", None, 0)


def test_a_member_of_a_group_receives_by_the_rights_of_its_user() -> None:
    scene = Scene()
    scene.ask(message.PUT, "mq/s/x", b"1")
    scene.ask(message.GET, "mq/jobs", query=("group=crew",), observe=0)
    scene.stage.arrive(b"dig", "jobs")
    received = [each for each in scene.stage.commands if isinstance(each, Receive)]
    assert received
    assert {each.principal.user for each in received if each.principal is not None} == {"sensor"}


def test_bodies_and_values_in_blocks() -> None:
    scene = Scene()
    body = bytes(range(256)) * 20
    for number in range(5):
        more = number < 4
        part = body[number * 1024 : (number + 1) * 1024]
        answer = scene.ask(message.PUT, "mq/s/big", part, block1=(number, more, 6))
        assert (answer.code, (11, b"") in answer.options) == (message.CONTINUE if more else message.CREATED, False)
    read = b""
    for number in range(5):
        second: dict[str, Any] = {"block2": (number, False, 6)}
        answer = scene.ask(message.GET, "mq/s/big", **(second if number else {}))
        assert answer.code == message.CONTENT
        read += answer.payload
    assert read == body


def test_blocks_of_one_context_are_not_another_ones() -> None:
    scene = Scene()
    body = b"x" * 2_000
    scene.ask(message.PUT, "mq/s/big", body[:1024], block1=(0, True, 6))
    (answer,) = scene.stage.request(message.PUT, "mq/s/big", body[1024:], pairs=[(option.BLOCK1, message.uint(1 << 4 | 6))])
    assert answer.code == message.REQUEST_INCOMPLETE
    assert scene.ask(message.PUT, "mq/s/big", body[1024:], block1=(1, False, 6)).code == message.CREATED
    scene.ask(message.GET, "mq/s/big")
    scene.stage.latest.clear()  # only the value that the device is reading is left
    assert scene.ask(message.GET, "mq/s/big", block2=(1, False, 6)).payload == body[1024:]
    (answer,) = scene.stage.request(message.GET, "mq/s/big", pairs=[(option.BLOCK2, message.uint(1 << 4 | 6))])
    assert answer.code == message.NOT_FOUND


def test_blocks_outside_are_refused() -> None:
    scene = Scene()
    data = scene.datagram(message.POST, "mq/s/a", b"1")
    found = message.decode(data)
    assert found is not None
    options = message.join([*found.options, (option.BLOCK1, b"\x08")])
    (answer,) = scene.stage.push(message.encode(message.CON, found.code, 1, b"t", options, found.payload))
    assert answer.code == message.METHOD_NOT_ALLOWED


def test_an_address_that_has_not_sent_echo_gets_no_more_than_three_times_its_bytes() -> None:
    scene = Scene()
    scene.ask(message.PUT, "mq/s/big", b"v" * 900)
    data = scene.datagram(message.GET, "mq/s/big")
    (raw,) = scene.stage.raw(data, peer(41_000))
    assert len(raw) <= 3 * len(data)
    answer = scene.device.read(raw)
    assert answer.code in (message.CONTENT, UNAUTHORIZED)
    if answer.code == UNAUTHORIZED:
        again = scene.push(scene.datagram(message.GET, "mq/s/big", echo=answer.echo), peer(41_000))
        assert again.payload == b"v" * 900


def test_a_protected_response_is_larger_by_no_more_than_is_reckoned_with() -> None:
    scene = Scene()
    scene.stage.run = (1 << (40 - RUN_BITS)) - 2
    scene.ask(message.GET, "mq/s/live", observe=0)
    scene.stage.publish("s/live", b"21.5")
    (raw,) = scene.stage.out_raw()
    assert scene.device.read(raw).payload == b"21.5"
    plain = message.encode(
        message.CON, message.CONTENT, 1, b"tk", message.join([(6, b"\x00\x00\x00"), (14, b"<"), (4, b"e" * 8)]), b"21.5"
    )
    assert len(raw) <= len(plain) + OVERHEAD


# Streams


def test_over_a_stream() -> None:
    scene = StreamScene()
    large_csm(scene.wire)
    first = scene.push(scene.datagram(message.PUT, "mq/s/a", b"1"))
    assert (first.code, first.sealed, scene.wire.log) == (UNAUTHORIZED, True, [])
    data = scene.datagram(message.PUT, "mq/s/a", b"x" * 5_000, echo=first.echo)
    assert scene.push(data).code == message.CREATED
    assert scene.push(scene.datagram(message.GET, "mq/s/a")).payload == b"x" * 5_000
    assert scene.push(scene.datagram(message.GET, "mq/s/live", token=b"2", observe=0)).code == message.CONTENT
    scene.wire.publish("s/live", b"21.5")
    (note,) = scene.received()
    assert (note.payload, note.sealed) == (b"21.5", True)
    replayed = scene.push(data)
    assert (replayed.code, replayed.payload, len(scene.wire.log)) == (UNAUTHORIZED, b"Replay detected", 2)
    assert [each.principal.user for each in scene.wire.commands if isinstance(each, Send) and each.principal] == ["sensor"]
    assert scene.wire.connection._replier.reads == 0


def test_a_request_that_came_over_udp_is_a_replay_over_tcp() -> None:
    scene = Scene()
    scene.ask(message.POST, "mq/s/a", b"1")
    data = scene.datagram(message.POST, "mq/s/a", b"2")
    scene.push(data)
    connection = CoapStreamAdapter(scene.stage.setting, scene.stage.config).connect(peer(), scene.stage.now)
    client = StreamFraming(1 << 20)
    found = message.decode(data)
    assert found is not None
    framed = client.encode(found.code, b"t", message.join(found.options), found.payload)
    connection.receive(HELLO + framed, scene.stage.now)
    for each in connection.outgoing():
        client.feed(each)
    frames = list(iter(client.take, None))
    assert [frame.code for frame in frames[1:]] == [UNAUTHORIZED]
    assert len(scene.stage.log) == 2
