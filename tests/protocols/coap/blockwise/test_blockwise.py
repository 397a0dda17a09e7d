"""Block-wise transfer: RFC 7959, ETSI TD_COAP_BLOCK_*."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.runtime.datagrams.inbox import BYTES_MAX as INBOX_BYTES_MAX
from protocols.coap.blockwise.blockwise import ASSEMBLY_BYTES, KEY_PART_BYTES, block, exponent_of
from protocols.coap.exchange.dedup import CROWDED
from protocols.coap.exchange.exchange import Remote
from protocols.coap.message import message, option
from protocols.coap.message.message import Packet
from protocols.coap.settings import CoapSettings
from tests.protocols.coap.stage import SECOND, Stage, peer, values

KEY_BYTES = 2 * KEY_PART_BYTES + 3
"""What identifies a body of `mq/t` in the memory."""
OBSERVATION_BYTES = 1_400
REMOTE_BYTES = 740
"""Memory of an observation, and of one address that the server remembers."""


def upload(stage: Stage, body: bytes, exponent: int, code: int = message.PUT, **more: object) -> list[Packet]:
    """Upload in blocks; returns the response to each block."""
    size = 1 << (exponent + 4)
    answers = []
    for number in range(max(1, (len(body) + size - 1) // size)):
        part = body[number * size : (number + 1) * size]
        value = message.uint(block(number, (number + 1) * size < len(body), exponent))
        answers += stage.request(code, "mq/t", part, pairs=[(option.BLOCK1, value)], **more)  # type: ignore[arg-type]
    return answers


def download(stage: Stage, exponent: int | None = None, port: int = 40_000) -> tuple[bytes, list[Packet]]:
    """Download in blocks; returns the body and the response to each request."""
    pairs = [] if exponent is None else [(option.BLOCK2, message.uint(block(0, False, exponent)))]
    answers = stage.request(message.GET, "mq/t", pairs=pairs, source=peer(port))
    body = answers[0].payload
    while values(answers[-1], option.BLOCK2):
        value = int.from_bytes(values(answers[-1], option.BLOCK2)[0], "big")
        assert len(body) == (value >> 4) * (1 << ((value & 7) + 4)) + len(answers[-1].payload)
        if not value & 8:
            break
        pairs = [(option.BLOCK2, message.uint(block((value >> 4) + 1, False, value & 7)))]
        answers += stage.request(message.GET, "mq/t", pairs=pairs, source=peer(port))
        body += answers[-1].payload
    return body, answers


def test_upload_is_one_message() -> None:  # TD_COAP_BLOCK_03 (PUT), 7959-2.5
    stage = Stage()
    body = bytes(range(256)) * 10
    answers = upload(stage, body, 6)
    assert [message.name(answer.code) for answer in answers] == ["2.31", "2.31", "2.01"]
    assert [values(answer, option.BLOCK1) for answer in answers] == [[b"\x0e"], [b"\x1e"], [b"\x26"]]
    assert [stored.body for stored, _ in stage.log] == [body]


def test_upload_by_post_names_the_message() -> None:  # TD_COAP_BLOCK_04 (POST)
    stage = Stage()
    answer = upload(stage, b"x" * 100, 2, message.POST)[-1]
    assert message.name(answer.code) == "2.01"
    assert values(answer, option.LOCATION_PATH)[0] == b"mq"


@pytest.mark.parametrize("code", [message.POST, message.PUT, message.FETCH, message.IPATCH])
def test_body_of_every_method_comes_in_blocks(code: int) -> None:  # 7959-2.1, 8132-2.1
    [answer] = Stage().request(code, "mq/t", b"x" * 16, pairs=[(option.BLOCK1, b"\x08")])
    assert message.name(answer.code) == "2.31"


def test_nothing_is_stored_before_the_last_block() -> None:
    stage = Stage()
    stage.request(message.POST, "mq/t", b"x" * 16, pairs=[(option.BLOCK1, b"\x08")])
    assert stage.log == []


def test_gap_is_incomplete() -> None:  # 7959-2.9.2
    stage = Stage()
    stage.request(message.PUT, "mq/t", b"x" * 16, pairs=[(option.BLOCK1, b"\x08")])
    [answer] = stage.request(message.PUT, "mq/t", b"x" * 16, pairs=[(option.BLOCK1, b"\x28")])
    assert message.name(answer.code) == "4.08"
    [answer] = stage.request(message.PUT, "mq/u", b"x" * 16, pairs=[(option.BLOCK1, b"\x18")])
    assert message.name(answer.code) == "4.08"


def test_block_sent_twice_is_counted_once() -> None:
    stage = Stage()
    first = stage.build(message.PUT, "mq/t", b"a" * 16, pairs=[(option.BLOCK1, b"\x08")])
    assert stage.raw(first) == stage.raw(first)
    stage.request(message.PUT, "mq/t", b"b", pairs=[(option.BLOCK1, b"\x10")])
    assert stage.log[0][0].body == b"a" * 16 + b"b"


def test_block_0_begins_anew() -> None:  # 7959-2.5
    stage = Stage()
    stage.request(message.PUT, "mq/t", b"a" * 16, pairs=[(option.BLOCK1, b"\x08")])
    upload(stage, b"b" * 20, 0)
    assert stage.log[0][0].body == b"b" * 20


OTHERS: list[tuple[message.Pairs, message.Pairs]] = [
    ([(option.CONTENT_FORMAT, b"")], [(option.CONTENT_FORMAT, b"\x32")]),
    ([], [(option.CONTENT_FORMAT, b"\x32")]),
    ([(option.IF_MATCH, b"")], []),
    ([(option.IF_MATCH, b"")], [(option.IF_MATCH, b"\x01")]),
    ([(option.IF_NONE_MATCH, b"")], []),
    ([(option.ACCEPT, b"\x32")], [(option.ACCEPT, b"\x3c")]),
    ([(option.URI_HOST, b"a.example")], [(option.URI_HOST, b"b.example")]),
    ([(option.URI_PORT, b"\x16\x33")], []),
    ([(option.URI_QUERY, b"key=a")], [(option.URI_QUERY, b"key=b")]),
    ([(option.REQUEST_TAG, b"\x01")], [(option.REQUEST_TAG, b"\x02")]),
]
"""Options of the first block, and of those that follow."""


@pytest.mark.parametrize("code", [message.POST, message.PUT])
@pytest.mark.parametrize(("first", "then"), OTHERS + [(then, first) for first, then in OTHERS])
def test_blocks_with_other_options_are_not_assembled(first: message.Pairs, then: message.Pairs, code: int) -> None:
    """RFC 7959, 2.3 and 2.9.2 (4.08); RFC 9175, 3.3: blocks of one body have the same options."""
    stage = Stage()
    stage.request(message.PUT, "mq/t", b"before")
    stored = len(stage.log)

    def put(options: message.Pairs, block1: bytes, payload: bytes) -> str:
        [answer] = stage.request(code, "mq/t", payload, pairs=sorted([*options, (option.BLOCK1, block1)]))
        return message.name(answer.code)

    assert put(first, b"\x08", b"x" * 16) == "2.31"
    assert put(then, b"\x18", b"y" * 16) == "4.08"
    assert put(then, b"\x20", b"z") == "4.08"
    assert len(stage.log) == stored


@pytest.mark.parametrize("options", [one for pair in OTHERS for one in pair if one])
def test_blocks_with_the_same_options_are_one_body(options: message.Pairs) -> None:
    stage = Stage()
    if options[0][0] == option.IF_MATCH:
        stage.request(message.PUT, "mq/t", b"before")
    for block1, payload in ((b"\x08", b"x" * 16), (b"\x18", b"y" * 16), (b"\x20", b"z")):
        # What may differ: Size1, and whether a response is wanted.
        more = [(option.SIZE1, b"\x21")] if block1 == b"\x08" else []
        [answer] = stage.request(message.PUT, "mq/t", payload, pairs=sorted([*options, (option.BLOCK1, block1), *more]))
    if options == [(option.IF_MATCH, b"\x01")]:
        assert message.name(answer.code) == "4.12"
    else:
        assert stage.log[-1][0].body == b"x" * 16 + b"y" * 16 + b"z"


def test_smaller_blocks_midway() -> None:  # 7959-2.3
    stage = Stage()
    stage.request(message.PUT, "mq/t", b"a" * 64, pairs=[(option.BLOCK1, bytes([block(0, True, 2)]))])
    stage.request(message.PUT, "mq/t", b"b" * 16, pairs=[(option.BLOCK1, bytes([block(4, True, 0)]))])
    stage.request(message.PUT, "mq/t", b"c", pairs=[(option.BLOCK1, bytes([block(5, False, 0)]))])
    assert stage.log[0][0].body == b"a" * 64 + b"b" * 16 + b"c"


@pytest.mark.parametrize("payload", [b"", b"x" * 15, b"x" * 17])
def test_payload_that_is_not_one_block(payload: bytes) -> None:
    [answer] = Stage().request(message.PUT, "mq/t", payload, pairs=[(option.BLOCK1, b"\x08")])
    assert message.name(answer.code) == "4.00"


def test_size_exponent_7_is_refused() -> None:  # 7959-2.2
    stage = Stage()
    assert message.name(stage.request(message.PUT, "mq/t", b"x", pairs=[(option.BLOCK1, b"\x07")])[0].code) == "4.00"
    assert message.name(stage.request(message.GET, "mq/t", pairs=[(option.BLOCK2, b"\x07")])[0].code) == "4.00"


def test_too_large_is_said_with_the_limit() -> None:  # 7959-2.9.3
    stage = Stage(block1_bytes_max=40)
    [answer] = stage.request(message.PUT, "mq/t", b"x" * 16, pairs=[(option.BLOCK1, b"\x08"), (option.SIZE1, b"\x29")])
    assert message.name(answer.code) == "4.13"
    assert values(answer, option.SIZE1) == [b"\x28"]
    assert message.name(upload(stage, b"x" * 41, 0)[-1].code) == "4.13"
    assert message.name(upload(stage, b"x" * 40, 0)[-1].code) == "2.01"


def test_illegal_path_is_refused_with_the_first_block() -> None:
    [answer] = Stage().request(message.PUT, "mq/a+", b"x" * 16, pairs=[(option.BLOCK1, b"\x08")])
    assert message.name(answer.code) == "4.00"


def test_unfinished_upload_is_dropped_after_93_s() -> None:
    stage = Stage()
    stage.request(message.PUT, "mq/t", b"x" * 16, pairs=[(option.BLOCK1, b"\x08")])
    stage.advance(104)
    assert stage.endpoint.assemblies.charge == 0
    [answer] = stage.request(message.PUT, "mq/t", b"x", pairs=[(option.BLOCK1, b"\x10")])
    assert message.name(answer.code) == "4.08"


def test_budget_of_a_peer_drops_its_oldest_upload() -> None:
    stage = Stage(block1_peer_bytes_max=2 * (ASSEMBLY_BYTES + KEY_BYTES) + 40)
    for name in ("a", "b", "c"):
        stage.request(message.PUT, f"mq/{name}", b"x" * 16, pairs=[(option.BLOCK1, b"\x08")])
    codes = [
        message.name(stage.request(message.PUT, f"mq/{name}", b"x", pairs=[(option.BLOCK1, b"\x10")])[0].code) for name in "abc"
    ]
    assert codes == ["4.08", "2.01", "2.01"]
    assert (stage.endpoint.assemblies.charge, stage.endpoint.assemblies.shares) == (0, {})


def test_budget_in_all_drops_the_oldest_upload() -> None:
    stage = Stage(block1_total_bytes_max=2 * (ASSEMBLY_BYTES + KEY_BYTES) + 40)
    for port in (1, 2, 3):
        stage.request(message.PUT, "mq/t", b"x" * 16, pairs=[(option.BLOCK1, b"\x08")], source=peer(port))
    codes = [
        message.name(stage.request(message.PUT, "mq/t", b"x", pairs=[(option.BLOCK1, b"\x10")], source=peer(port))[0].code)
        for port in (1, 2, 3)
    ]
    assert codes == ["4.08", "2.01", "2.04"]


def test_request_tags_keep_uploads_apart() -> None:  # 9175-3.3
    stage = Stage()
    for tag in (b"1", b"2"):
        stage.request(message.PUT, "mq/t", tag * 16, pairs=[(option.BLOCK1, b"\x08"), (option.REQUEST_TAG, tag)])
    for tag in (b"1", b"2"):
        stage.request(message.PUT, "mq/t", tag, pairs=[(option.BLOCK1, b"\x10"), (option.REQUEST_TAG, tag)])
    assert [stored.body for stored, _ in stage.log] == [b"1" * 17, b"2" * 17]


def test_download_has_the_etag_on_every_block() -> None:  # TD_COAP_BLOCK_02 (late negotiation), 7959-2.4
    stage = Stage(amplification=0)
    body = bytes(range(256)) * 9
    stage.publish("t", body, retain=True)
    got, answers = download(stage)
    assert got == body
    assert [len(answer.payload) for answer in answers] == [1024, 1024, 256]
    assert len({values(answer, option.ETAG)[0] for answer in answers}) == 1
    assert values(answers[0], option.SIZE2) == [message.uint(len(body))]


def test_download_with_the_size_the_client_asks_for() -> None:  # TD_COAP_BLOCK_01, 06 (early negotiation)
    stage = Stage(amplification=0)
    stage.publish("t", b"x" * 100, retain=True)
    got, answers = download(stage, 1)
    assert got == b"x" * 100
    assert [len(answer.payload) for answer in answers] == [32, 32, 32, 4]


def test_version_is_pinned_while_it_is_read() -> None:
    stage = Stage(amplification=0)
    stage.publish("t", b"a" * 40, retain=True)
    [first] = stage.request(message.GET, "mq/t", pairs=[(option.BLOCK2, b"\x00")])
    stage.publish("t", b"b" * 40, retain=True)
    [second] = stage.request(message.GET, "mq/t", pairs=[(option.BLOCK2, b"\x10")])
    assert (second.payload, values(second, option.ETAG)) == (b"a" * 16, values(first, option.ETAG))
    [fresh] = stage.request(message.GET, "mq/t", pairs=[(option.BLOCK2, b"\x00")])
    assert fresh.payload == b"b" * 16
    stage.advance(104)
    assert stage.endpoint.shared.pinned.bytes == 0


def test_block_that_does_not_exist() -> None:  # 7959-2.2
    stage = Stage(amplification=0)
    stage.publish("t", b"x" * 40, retain=True)
    assert message.name(stage.request(message.GET, "mq/t", pairs=[(option.BLOCK2, b"\x30")])[0].code) == "4.00"


def test_large_notification_begins_with_its_first_block() -> None:  # TD_COAP_OBS_13, 7959-2.6
    stage = Stage(amplification=0)
    stage.request(message.GET, "mq/t", pairs=[(option.OBSERVE, b"")], token=b"ob")
    stage.publish("t", b"a" * 1024 + b"b" * 10)
    [note] = stage.out()
    assert note.payload == b"a" * 1024
    assert values(note, option.BLOCK2) == [bytes([block(0, True, 6)])]
    [rest] = stage.request(message.GET, "mq/t", pairs=[(option.BLOCK2, bytes([block(1, False, 6)]))])
    assert (rest.payload, values(rest, option.ETAG)) == (b"b" * 10, values(note, option.ETAG))


def test_notification_has_the_block_size_of_the_registration() -> None:  # 7959-2.6
    stage = Stage(amplification=0)
    stage.request(message.GET, "mq/t", pairs=[(option.OBSERVE, b""), (option.BLOCK2, b"\x02")], token=b"ob")
    stage.publish("t", b"a" * 100)
    [note] = stage.out()
    assert (len(note.payload), values(note, option.BLOCK2)) == (64, [bytes([block(0, True, 2)])])


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=3000), st.integers(0, 6), st.integers(0, 6))
def test_what_goes_in_comes_out(body: bytes, up: int, down: int) -> None:
    stage = Stage(amplification=0)
    upload(stage, body, up)
    assert download(stage, down)[0] == body


@pytest.mark.parametrize(("size", "exponent"), [(1, 0), (16, 0), (31, 0), (32, 1), (1023, 5), (1024, 6), (65_507, 6)])
def test_exponent_is_the_largest_block_that_fits(size: int, exponent: int) -> None:
    assert exponent_of(size) == exponent


@pytest.mark.parametrize("levels", [1, 60])
def test_unfinished_bodies_hold_no_more_than_they_count_for(levels: int) -> None:
    """Many bodies of one small block each, with few and with many names in their paths."""
    bound = 1 << 20
    stage = Stage(block1_total_bytes_max=bound)
    tracemalloc.start()
    for number in range(3_000):
        path = "/".join(["mq", "t", *[f"{number}-{level}" for level in range(levels)]])
        stage.request(message.PUT, path, b"x" * 16, pairs=[(option.BLOCK1, b"\x08")], source=peer(number))
    full = tracemalloc.get_traced_memory()[0]
    stage.endpoint.assemblies.expire(stage.now + 100 * SECOND)
    freed = full - tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert stage.endpoint.assemblies.charge == 0
    assert bound // 2 <= freed <= bound * 5 // 4


def test_what_one_host_can_make_coap_hold_is_below_64_mib() -> None:
    config = CoapSettings()
    bodies = config.block1_total_bytes_max + config.pinned_bytes_max + config.backlogs_bytes_max
    addresses = config.peers_max * REMOTE_BYTES
    of_host = bodies + int(config.answers_bytes_max * CROWDED) + INBOX_BYTES_MAX + addresses
    assert of_host + config.observers_network_max * OBSERVATION_BYTES <= 64 << 20


def test_an_address_takes_as_much_memory_as_the_sum_says() -> None:
    tracemalloc.start()
    remotes: dict[bytes, Remote] = {}
    for number in range(5_000):
        source = peer(number, f"2001:db8::{number:x}")
        remotes[source.born_host] = Remote((source.host, source.port), source.born_host, number)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held <= len(remotes) * REMOTE_BYTES
