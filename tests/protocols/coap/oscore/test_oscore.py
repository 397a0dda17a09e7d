"""Protected requests (OSCORE, RFC 8613): refusals, replays, freshness and rights. The device is aiocoap's implementation."""

from __future__ import annotations

import random

import pytest

from domain.access.access import ContextProof
from domain.access.principal import GATEWAY
from domain.admin.oscore import HoldOscoreContext, ReserveOscoreRun
from domain.command import Send
from domain.errors import ErrorCode, Failure
from protocols.coap.message import message, option
from protocols.coap.oscore import association as associations
from tests.protocols.coap.oscore_device import Device, context
from tests.protocols.coap.oscore_scene import UNAUTHORIZED, Scene
from tests.protocols.coap.stage import SECOND, Stage, peer, values


def test_the_first_request_is_executed_when_it_is_repeated_with_echo() -> None:
    scene = Scene()
    first = scene.push(scene.datagram(message.POST, "mq/s/a", b"1"))
    assert (first.code, first.sealed, len(first.echo or b""), scene.stage.log) == (UNAUTHORIZED, True, 8, [])
    assert len(first.outer.opt.oscore) > 1  # a number of its own
    second = scene.push(scene.datagram(message.POST, "mq/s/a", b"1", echo=first.echo))
    assert (second.code, second.sealed, second.outer.opt.oscore) == (message.CREATED, True, b"")
    assert int(second.outer.code) == message.CHANGED
    assert [stored.body for stored, _ in scene.stage.log] == [b"1"]
    assert [type(each) for each in scene.stage.claims] == [ReserveOscoreRun, HoldOscoreContext]
    assert scene.push(scene.datagram(message.POST, "mq/s/a", b"2")).code == message.CREATED
    assert scene.stage.endpoint.counts["oscore-fresh"] == 1


def test_every_method_is_answered_inside() -> None:
    scene = Scene()
    assert scene.ask(message.PUT, "mq/s/a", b"21.5", content_format=50).code == message.CREATED
    value = scene.ask(message.GET, "mq/s/a")
    assert (value.code, value.payload, int(value.outer.code)) == (message.CONTENT, b"21.5", message.CHANGED)
    assert scene.ask(message.GET, "mq/s/a", etags=[value.etag]).code == message.VALID
    assert scene.ask(message.GET, "mq/s/none").code == message.NOT_FOUND
    assert scene.ask(message.PATCH, "mq/s/a").code == message.METHOD_NOT_ALLOWED
    assert scene.ask(message.DELETE, "mq/s/a").code == message.DELETED
    assert b"21.5" not in b"".join(scene.stage.out_raw())


def test_commands_are_those_of_the_user_of_the_context() -> None:
    scene = Scene()
    scene.ask(message.POST, "mq/s/a", b"1")
    scene.stage.request(message.POST, "mq/s/a", b"2")
    sends = [each for each in scene.stage.commands if isinstance(each, Send)]
    assert [each.principal.user for each in sends if each.principal is not None] == ["sensor", "guest"]
    assert all(each.principal is GATEWAY for each in scene.stage.claims)


def test_a_conditional_request_is_stored_by_the_rights_of_its_user() -> None:
    scene = Scene()
    assert scene.ask(message.PUT, "mq/s/a", b"1", if_none_match=True).code == message.CREATED
    assert [each.principal.user for each in scene.stage.commands if isinstance(each, Send) and each.principal] == ["sensor"]


# Refusals, none of them protected


@pytest.mark.parametrize("value", [b"", b"\x00", b"\xe9\x14\x01", b"\x09", b"\x0f" + b"\x01" * 8])
def test_a_broken_option_is_refused(value: bytes) -> None:
    scene = Scene()
    (answer,) = scene.stage.push(message.encode(message.CON, message.POST, 1, b"t", message.join([(9, value)]), b"x" * 12))
    assert (answer.code, answer.payload) == (message.BAD_OPTION, b"Failed to decode COSE")
    assert values(answer, option.MAX_AGE) == [b""]
    assert scene.stage.endpoint.counts["oscore-cose"] == 1


def test_a_request_without_ciphertext_is_refused() -> None:
    scene = Scene()
    (answer,) = scene.stage.push(message.encode(message.CON, message.POST, 1, b"t", message.join([(9, b"\x09\x14\x01")]), b""))
    assert answer.code == message.BAD_OPTION


@pytest.mark.parametrize("code", [message.GET, message.PUT, message.DELETE])
def test_other_outer_methods_are_refused(code: int) -> None:
    scene = Scene()
    data = scene.datagram(message.POST, "mq/s/a", b"1")
    (answer,) = scene.stage.push(data[:1] + bytes((code,)) + data[2:])
    assert answer.code == message.METHOD_NOT_ALLOWED
    assert scene.stage.endpoint.counts["oscore-cose"] == 1


def test_an_unknown_context_is_refused() -> None:
    scene = Scene()
    stranger = Device(context("other", b"\x07"))
    (answer,) = scene.stage.push(stranger.request(message.POST, "mq/s/a", b"1", token=b"t", mid=1))
    assert (answer.code, answer.payload) == (UNAUTHORIZED, b"Security context not found")
    elsewhere = Device(context(id_context=b"elsewhere"))
    (answer,) = scene.stage.push(elsewhere.request(message.POST, "mq/s/a", b"1", token=b"t", mid=2))
    assert answer.payload == b"Security context not found"
    assert scene.stage.endpoint.counts["oscore-unknown"] == 2
    assert scene.stage.log == []


def test_without_access_control_there_is_no_context() -> None:
    stage = Stage()
    (answer,) = stage.push(Device(context()).request(message.POST, "mq/s/a", b"1", token=b"t", mid=1))
    assert answer.payload == b"Security context not found"


def test_what_was_changed_on_the_way_is_refused() -> None:
    scene = Scene()
    scene.ask(message.POST, "mq/s/a", b"1")
    data = scene.datagram(message.POST, "mq/s/a", b"2")
    ciphertext = data.index(b"\xff", 8) + 1
    for at in range(ciphertext, len(data)):
        changed = bytearray(data)
        changed[at] ^= 0x40
        packet = scene.again(bytes(changed))
        assert (packet.code, packet.payload, values(packet, 9)) == (message.BAD_REQUEST, b"Decryption failed", [])
    assert scene.stage.endpoint.counts["oscore-decrypt"] == len(data) - ciphertext
    assert len(scene.stage.log) == 1
    assert scene.push(data).code == message.CREATED  # its number was not used up by the forgeries


@pytest.mark.parametrize("plain", [b"\x00", b"\x45ok", b"\x02\xff", b"\x02\xf0"])
def test_a_request_inside_that_is_none_is_refused(plain: bytes) -> None:
    scene = Scene()
    scene.ask(message.POST, "mq/s/a", b"1")
    answer = scene.push(scene.device.anything(plain, token=b"t", mid=500))
    assert (answer.code, answer.payload, answer.sealed) == (message.BAD_REQUEST, b"Decryption failed", False)


@pytest.mark.parametrize("number", [9, 2_049])
def test_a_critical_option_inside_is_refused_inside(number: int) -> None:
    scene = Scene()
    scene.ask(message.POST, "mq/s/a", b"1")
    plain = bytes((message.POST,)) + message.join([(11, b"mq"), (11, b"s"), (number, b"")])
    answer = scene.push(scene.device.anything(plain, token=b"t", mid=500))
    assert (answer.code, answer.sealed) == (message.BAD_OPTION, True)


def test_any_bytes_are_answered_or_refused() -> None:
    scene = Scene()
    scene.ask(message.POST, "mq/s/a", b"1")
    chance = random.Random(5)
    for mid in range(2_000):
        value = chance.randbytes(chance.randrange(12))
        body = chance.randbytes(chance.randrange(1, 30))
        code = chance.choice((message.POST, message.FETCH))
        data = message.encode(message.CON, code, 10_000 + mid, b"t", message.join([(9, value)]), body)
        (answer,) = scene.stage.push(data)
        assert answer.code >= message.BAD_REQUEST
    assert len(scene.stage.log) == 1


# Replays


def test_a_replayed_request_is_refused_and_not_executed() -> None:
    scene = Scene()
    scene.ask(message.POST, "mq/s/a", b"1")
    data = scene.datagram(message.POST, "mq/s/a", b"2")
    assert scene.push(data).code == message.CREATED
    packet = scene.again(data)
    assert (packet.code, packet.payload, values(packet, 9)) == (UNAUTHORIZED, b"Replay detected", [])
    assert [stored.body for stored, _ in scene.stage.log] == [b"1", b"2"]
    assert scene.stage.endpoint.counts["oscore-replay"] == 1


def test_a_device_whose_address_changes_goes_on() -> None:
    """A security context belongs to no address: behind a NAT, nothing has to be made anew."""
    scene = Scene()
    scene.ask(message.POST, "mq/s/a", b"1")
    for port in (40_001, 40_002):
        answer = scene.push(scene.datagram(message.POST, "mq/s/a", b"2"), peer(port))
        assert (answer.code, answer.sealed) == (message.CREATED, True)
    assert len(scene.stage.log) == 3


def test_a_retransmission_gets_the_same_bytes_again() -> None:
    scene = Scene()
    scene.ask(message.PUT, "mq/s/a", b"1")
    for code in (message.POST, message.GET):
        data = scene.datagram(code, "mq/s/a", b"2" if code == message.POST else b"")
        assert scene.stage.raw(data) == scene.stage.raw(data)
    assert len(scene.stage.log) == 2
    assert scene.stage.endpoint.counts["duplicate"] == 2


def test_nothing_that_was_executed_is_executed_after_a_restart() -> None:
    scene = Scene()
    for number in range(3):
        scene.ask(message.POST, "mq/s/a", b"%d" % number)
    before = list(scene.sent)
    scene.restart()
    for data in before:
        packet = scene.again(data)
        assert (packet.code, len(values(packet, 9)[0]) > 1) == (
            message.CHANGED,
            True,
        )  # a 4.01 inside, with a number of its own
    assert scene.stage.endpoint.counts["oscore-fresh"] == len(before)
    assert len(scene.stage.log) == 3
    assert scene.ask(message.POST, "mq/s/a", b"3").code == message.CREATED
    for data in before:
        assert scene.again(data).payload == b"Replay detected"
    assert len(scene.stage.log) == 4


def test_an_echo_value_is_good_for_one_window_at_one_address_for_some_minutes() -> None:
    scene = Scene()
    first = scene.push(scene.datagram(message.POST, "mq/s/a", b"1"))
    elsewhere = scene.push(scene.datagram(message.POST, "mq/s/a", b"1", echo=first.echo), peer(40_001))
    assert (elsewhere.code, scene.stage.log) == (UNAUTHORIZED, [])
    scene.stage.now += 300 * SECOND
    late = scene.push(scene.datagram(message.POST, "mq/s/a", b"1", echo=first.echo))
    assert (late.code, scene.stage.log) == (UNAUTHORIZED, [])
    data = scene.datagram(message.POST, "mq/s/a", b"1", echo=late.echo)
    assert scene.push(data).code == message.CREATED
    scene.authority.contexts.holders["sensor"] = 7  # another process holds the context now
    assert scene.again(data).code == message.CHANGED
    assert len(scene.stage.log) == 1


def test_another_process_that_holds_the_context_ends_the_window() -> None:
    scene = Scene()
    scene.ask(message.POST, "mq/s/a", b"1")
    elsewhere = scene.datagram(message.POST, "mq/s/a", b"executed by another gateway")
    scene.authority.contexts.holders["sensor"] = 7
    answer = scene.push(elsewhere)
    assert (answer.code, answer.echo is not None, len(scene.stage.log)) == (UNAUTHORIZED, True, 1)
    assert scene.push(scene.datagram(message.POST, "mq/s/a", b"2", echo=answer.echo)).code == message.CREATED
    holds = [each for each in scene.stage.claims if isinstance(each, HoldOscoreContext)]
    assert [each.before for each in holds] == [0, 7]
    assert len({each.holder for each in holds}) == 2  # no window is taken for another of the same process


def test_a_context_that_could_not_be_held_needs_echo_again() -> None:
    scene = Scene()
    first = scene.push(scene.datagram(message.POST, "mq/s/a", b"1"))
    scene.stage.refuse = Failure(ErrorCode.CHANGED, "another process was faster")
    scene.push(scene.datagram(message.POST, "mq/s/a", b"1", echo=first.echo))
    scene.stage.refuse = None
    again = scene.push(scene.datagram(message.POST, "mq/s/a", b"1"))
    assert (again.code, again.echo is not None) == (UNAUTHORIZED, True)


def test_a_replaced_context_begins_anew() -> None:
    scene = Scene()
    scene.ask(message.POST, "mq/s/a", b"1")
    fresh = context(device=b"\x05")
    scene.authority.contexts.users["sensor"] = fresh
    (answer,) = scene.stage.push(scene.datagram(message.POST, "mq/s/a", b"2"))
    assert answer.payload == b"Security context not found"
    scene.device = Device(fresh)
    assert scene.ask(message.POST, "mq/s/a", b"2").code == message.CREATED


def test_the_least_recently_used_context_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(associations, "ASSOCIATIONS_MAX", 2)
    scene = Scene()
    devices = []
    for number in range(2, 5):
        mine = context(f"u{number}", bytes((number,)))
        scene.authority.contexts.users[mine.user] = mine
        devices.append(mine)
    scene.ask(message.POST, "mq/s/a", b"1")
    data = scene.datagram(message.POST, "mq/s/a", b"2")
    scene.push(data)
    for mine in devices:
        scene.device = Device(mine)
        scene.ask(message.POST, "mq/s/b", b"x")
    packet = scene.again(data)
    assert packet.code == message.CHANGED
    assert len(scene.stage.log) == 5


def test_a_context_is_shown_without_its_secrets() -> None:
    mine = context()
    for text in (repr(mine), str(mine), repr(ContextProof(mine.user, mine.digest))):
        for secret in (mine.secret, mine.salt):
            assert secret.hex() not in text
            assert repr(secret) not in text
