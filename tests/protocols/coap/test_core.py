"""The message layer and the methods without options. Comments name the ETSI plug-test cases."""

from __future__ import annotations

import pytest

from domain.access.principal import GATEWAY
from domain.command import QueryLatest, Send
from domain.errors import ErrorCode, Failure
from domain.event import LatestValue, Refused
from domain.message import property as properties
from domain.message.message import RETAIN_NONE, RETAIN_SET
from domain.turn import LATER_COMMANDS
from protocols.coap import status
from protocols.coap.message import message, option
from tests.protocols.coap.stage import SECOND, Stage, peer, values
from tests.protocols.taken import last

A = "mq/sensors/room1/temp"


def test_post_appends_and_names_the_message() -> None:  # TD_COAP_CORE_04 (POST), 18 (Location-Path), 7252-5.8.2
    stage = Stage()
    [answer] = stage.request(message.POST, A, b"21.5", mid=77, token=b"\x01\x02\x03\x04\x05\x06\x07\x08")
    assert (answer.kind, answer.mid, answer.token) == (message.ACK, 77, b"\x01\x02\x03\x04\x05\x06\x07\x08")
    assert message.name(answer.code) == "2.01"
    stored = stage.log[0][0]
    assert values(answer, option.LOCATION_PATH) == [b"mq", b"sensors", b"room1", b"temp", f"ID{0:030d}".encode()]
    assert (stored.topic, stored.body, stored.retain) == ("sensors", b"21.5", RETAIN_NONE)
    found = properties.decode(stored.properties)
    assert found["originMqttTopic"] == "sensors/room1/temp"
    assert found["HG_PROTOCOL"] == "coap"
    assert stored.born_host == peer().born_host


def test_post_on_a_bare_topic_has_no_origin_path() -> None:
    stage = Stage()
    stage.request(message.POST, "mq/sensors", b"x")
    assert "originMqttTopic" not in properties.decode(stage.log[0][0].properties)


@pytest.mark.parametrize(
    ("path", "queries", "plain"),
    [
        ("mq/sensors", (), True),
        ("mq/sensors", ("key=a", "tag=b", "colour=red", "ttl_ms=1000"), True),
        ("mq/sensors", ("mg=a",), False),
        ("mq/sensors", ("delay_ms=1000",), False),
        ("mq/sensors/room1", (), False),
        ("mq/sensors", ("a=originMqttTopic",), True),
    ],
)
def test_a_message_is_plain_when_nothing_says_how_to_store_it(path: str, queries: tuple[str, ...], plain: bool) -> None:
    """Then nobody looks for an id, a path, an ordering key, a priority, a delivery time or an idempotency key."""
    stage = Stage()
    stage.request(message.POST, path, b"x", query=queries)
    assert stage.log[0][0].plain is plain


def test_path_that_is_no_topic_lands_in_the_other_topic() -> None:
    stage = Stage()
    stage.request(message.POST, "mq/BenchmarkTest/ü", b"x")
    stored = stage.log[0][0]
    assert stored.topic == "mqtt_other"
    assert properties.text(stored.properties, "originMqttTopic") == "BenchmarkTest/ü"


def test_no_id_asks_for_changed() -> None:
    stage = Stage()
    [answer] = stage.request(message.POST, A, b"1", query=["no-id"])
    assert (message.name(answer.code), answer.options) == ("2.04", [])


def test_put_keeps_the_value_that_get_returns() -> None:  # TD_COAP_CORE_03 (PUT), TD_COAP_CORE_01 (GET)
    stage = Stage()
    [answer] = stage.request(message.PUT, A, b"21.5", pairs=[(option.CONTENT_FORMAT, b"")])
    assert message.name(answer.code) == "2.01"
    assert stage.log[0][0].retain == RETAIN_SET
    [answer] = stage.request(message.GET, A)
    assert (message.name(answer.code), answer.payload) == ("2.05", b"21.5")
    assert values(answer, option.CONTENT_FORMAT) == [b""]
    assert len(values(answer, option.ETAG)[0]) == 8


def test_put_tells_whether_it_has_made_the_resource() -> None:  # 7252-5.8.3
    stage = Stage()
    codes = [stage.request(message.PUT, A, body)[0].code for body in (b"1", b"2")]
    stage.request(message.DELETE, A)
    codes.append(stage.request(message.PUT, A, b"3")[0].code)
    assert [message.name(code) for code in codes] == ["2.01", "2.04", "2.01"]
    [queried, stored] = stage.commands[-2:]
    assert (type(queried), queried.principal, type(stored)) == (QueryLatest, GATEWAY, Send)  # also for who may not read there


@pytest.mark.parametrize("query", ["delay_ms=1000", "delay_ms=1"])
def test_a_delayed_put_has_made_nothing_yet(query: str) -> None:
    stage = Stage()
    [answer] = stage.request(message.PUT, A, b"1", query=[query])
    assert message.name(answer.code) == "2.04"


def test_a_value_that_cannot_be_read_is_no_reason_to_refuse_a_put() -> None:
    stage = Stage()
    stage.hold = True
    stage.request(message.PUT, A, b"1")
    [query, send] = stage.held
    assert isinstance(query, QueryLatest)
    assert isinstance(send, Send)
    stage.held = [send]
    stage.endpoint.answer(Refused(query.ticket, Failure(ErrorCode.STORE_UNAVAILABLE, "not now")), stage.now)
    [answer] = stage.play()
    assert message.name(answer.code) == "2.04"


def test_post_does_not_change_the_latest_value() -> None:
    stage = Stage()
    stage.request(message.PUT, A, b"kept")
    stage.request(message.POST, A, b"passing")
    assert stage.request(message.GET, A)[0].payload == b"kept"


def test_delete_removes_the_latest_value() -> None:  # TD_COAP_CORE_02 (DELETE)
    stage = Stage()
    stage.request(message.PUT, A, b"1")
    assert message.name(stage.request(message.DELETE, A)[0].code) == "2.02"
    assert message.name(stage.request(message.GET, A)[0].code) == "4.04"


def test_etag_of_the_present_value_is_valid() -> None:  # TD_COAP_CORE_21, 7252-5.10.6.2
    stage = Stage()
    stage.request(message.PUT, A, b"1")
    [etag] = values(stage.request(message.GET, A)[0], option.ETAG)
    [answer] = stage.request(message.GET, A, pairs=[(option.ETAG, b"other"), (option.ETAG, etag)])
    assert (message.name(answer.code), answer.payload, values(answer, option.ETAG)) == ("2.03", b"", [etag])
    stage.request(message.PUT, A, b"2")
    [answer] = stage.request(message.GET, A, pairs=[(option.ETAG, etag)])
    assert (message.name(answer.code), answer.payload) == ("2.05", b"2")


def test_if_match_guards_a_put() -> None:  # TD_COAP_CORE_22, 7252-5.10.8.1
    stage = Stage()
    stage.request(message.PUT, A, b"1")
    [etag] = values(stage.request(message.GET, A)[0], option.ETAG)
    assert message.name(stage.request(message.PUT, A, b"2", pairs=[(option.IF_MATCH, etag)])[0].code) == "2.04"
    assert message.name(stage.request(message.PUT, A, b"3", pairs=[(option.IF_MATCH, etag)])[0].code) == "4.12"
    assert stage.request(message.GET, A)[0].payload == b"2"
    assert message.name(stage.request(message.PUT, "mq/none", b"3", pairs=[(option.IF_MATCH, b"")])[0].code) == "4.12"


def test_if_none_match_creates_once() -> None:  # TD_COAP_CORE_23, 7252-5.10.8.2
    stage = Stage()
    guard = [(option.IF_NONE_MATCH, b"")]
    assert message.name(stage.request(message.PUT, A, b"1", pairs=guard)[0].code) == "2.01"
    assert message.name(stage.request(message.PUT, A, b"2", pairs=guard)[0].code) == "4.12"
    assert stage.request(message.GET, A)[0].payload == b"1"


def test_what_many_events_cause_is_done_in_turns_between_which_requests_are_carried_out() -> None:
    stage = Stage(amplification=0)
    stage.hold = True
    count = 2 * LATER_COMMANDS + 1
    for at in range(count):
        source = peer(40_000 + at // 2)
        stage.request(message.PUT, f"mq/t/{at}", b"1", pairs=[(option.IF_NONE_MATCH, b"")], token=b"%d" % at, source=source)
    asked, stage.held = stage.held, []
    for command in asked:
        assert isinstance(command, QueryLatest)
        stage.endpoint.answer(LatestValue(command.ticket, None), stage.now)
    done: list[int] = []
    while stage.endpoint.deadline() == 0:
        done.append(len(stage.endpoint.expire(stage.now)))
        if len(done) == 1:
            [other] = stage.endpoint.receive(stage.build(message.POST, "mq/other", b"2", token=b"o"), peer(50_000), stage.now)
            assert isinstance(other, Send)
    assert done == [LATER_COMMANDS, LATER_COMMANDS, 1]


def test_non_confirmable_request_is_answered_non_confirmable() -> None:  # TD_COAP_CORE_05 to 08
    stage = Stage()
    [answer] = stage.request(message.PUT, A, b"1", kind=message.NON, token=b"t")
    assert (answer.kind, message.name(answer.code), answer.token) == (message.NON, "2.01", b"t")
    [answer] = stage.request(message.GET, A, kind=message.NON)
    assert (answer.kind, answer.payload) == (message.NON, b"1")


def test_slow_answer_is_separate_and_sent_until_acknowledged() -> None:  # TD_COAP_CORE_09, 11, 16, 7252-5.2.2
    stage = Stage()
    stage.hold = True
    assert stage.request(message.POST, A, b"1", mid=5, token=b"slow") == []
    assert stage.advance(0.9) == []
    [empty] = stage.advance(0.2)
    assert (empty.kind, empty.code, empty.mid) == (message.ACK, message.EMPTY, 5)
    assert [again.kind for again in stage.request(message.POST, A, b"1", mid=5, token=b"slow")] == [message.ACK]
    [answer] = stage.play()
    assert (answer.kind, message.name(answer.code), answer.token) == (message.CON, "2.01", b"slow")
    [again] = stage.advance(2.6)
    assert (again.mid, again.token) == (answer.mid, b"slow")
    assert stage.raw(message.empty(message.ACK, answer.mid)) == []
    assert stage.advance(100) == []
    assert len(stage.log) == 1


def test_empty_token() -> None:  # TD_COAP_CORE_12
    stage = Stage()
    [answer] = stage.request(message.POST, A, b"1", token=b"")
    assert answer.token == b""


def test_ping_is_reset() -> None:  # 7252-4.3; TD_COAP_CORE_31
    assert Stage().raw(bytes.fromhex("4000abcd")) == [bytes.fromhex("7000abcd")]


@pytest.mark.parametrize(
    "text",
    [
        "4f010001" + "00" * 15, "49020002" + "00" * 9, "40010003f161", "400100041f61", "40010005b26d71ff", "4100000600",
        "40410007", "40e10008",
    ],
)  # fmt: skip
def test_confirmable_format_error_is_reset_and_other_is_silent(text: str) -> None:  # 7252-4.2, 4.3
    data = bytes.fromhex(text)
    assert Stage().raw(data) == [b"\x70\x00" + data[2:4]]
    assert Stage().raw(bytes((data[0] | 0x10,)) + data[1:]) == []
    assert Stage().raw(bytes((data[0] | 0x20,)) + data[1:]) == []


@pytest.mark.parametrize("size", [9, 13, 40, 300])
def test_a_long_token_is_a_format_error(size: int) -> None:  # 7252-3; 8974-2.1: who extends tokens learns so that we do not
    extension = b"" if size < 13 else bytes((size - 13,)) if size < 269 else (size - 269).to_bytes(2, "big")
    nibble = size if size < 13 else 13 if size < 269 else 14
    data = bytes((0x40 | nibble, message.POST, 0, 7)) + extension + bytes(size) + b"\xb2mq\x01t\xffx"
    stage = Stage()
    assert stage.raw(data) == [message.empty(message.RST, 7)]
    assert stage.raw(bytes((data[0] | 0x10,)) + data[1:]) == []
    assert (stage.log, stage.endpoint.counts) == ([], {"format-error": 2})


@pytest.mark.parametrize("text", ["", "40", "400100", "80010001", "00010001", "c0010001"])
def test_what_is_no_coap_is_dropped_and_counted(text: str) -> None:
    stage = Stage()
    assert stage.raw(bytes.fromhex(text)) == []
    assert stage.endpoint.counts == {"malformed": 1}


def test_port_0_is_dropped() -> None:
    stage = Stage()
    assert stage.raw(bytes.fromhex("40000001"), peer(0)) == []


@pytest.mark.parametrize(
    ("number", "value"), [(13, b""), (19, b"x"), (2049, b""), (17, b"abc"), (5, b"x"), (65_001, b"q" * 300)]
)
def test_unknown_or_misshapen_critical_option(number: int, value: bytes) -> None:  # 7252-5.4.1, 5.4.3
    stage = Stage()
    [answer] = stage.request(message.POST, "mq/t", b"1", pairs=[(number, value)])
    assert message.name(answer.code) == "4.02"
    assert str(number) in answer.payload.decode()
    [reset] = stage.request(message.POST, "mq/t", b"1", pairs=[(number, value)], kind=message.NON)
    assert (reset.kind, reset.code) == (message.RST, message.EMPTY)
    assert stage.log == []
    assert stage.endpoint.counts == {"4.02": 1, "critical-option": 1}


@pytest.mark.parametrize(("number", "value"), [(2048, b""), (65_000, b"x"), (12, b"abc"), (6, b"abcd"), (14, b"")])
def test_unknown_or_misshapen_elective_option_is_ignored(number: int, value: bytes) -> None:
    stage = Stage()
    assert message.name(stage.request(message.POST, "mq/t", b"1", pairs=[(number, value)])[0].code) == "2.01"


def test_repeated_option_counts_as_unknown() -> None:  # 7252-5.4.5
    stage = Stage()
    [answer] = stage.request(message.GET, "mq/t", pairs=[(option.ACCEPT, b""), (option.ACCEPT, b"")])
    assert message.name(answer.code) == "4.02"
    stage.request(message.POST, "mq/t", b"1", pairs=[(option.CONTENT_FORMAT, b""), (option.CONTENT_FORMAT, b"\x32")])
    assert properties.text(stage.log[0][0].properties, "HG_CONTENT_TYPE") == "text/plain; charset=utf-8"


@pytest.mark.parametrize("pair", [(option.PROXY_URI, b"coap://x/"), (option.PROXY_SCHEME, b"coap")])
def test_proxying_is_not_supported(pair: tuple[int, bytes]) -> None:  # 7252-5.10.2
    assert message.name(Stage().request(message.GET, "mq/t", pairs=[pair])[0].code) == "5.05"


@pytest.mark.parametrize(
    "pair",
    [
        (option.URI_PATH, b"\xff\xfe"), (option.URI_PATH, b"a/b"), (option.URI_PATH, b"+"), (option.URI_PATH, b"a#"),
        (option.URI_PATH, b"."), (option.URI_PATH, b".."), (option.URI_PATH, b"\x00"), (option.URI_PATH, b"\x02"),
        (option.URI_QUERY, b"\xff"), (option.URI_QUERY, b"x"), (option.URI_QUERY, b"=x"), (option.URI_QUERY, b"delay_ms=-1"),
        (option.URI_QUERY, b"ttl_ms=99999999999999"), (option.URI_QUERY, b"mg=" + b"x" * 65), (option.HOP_LIMIT, b"\x00"),
    ],
)  # fmt: skip
def test_bad_path_or_query_is_a_bad_request(pair: tuple[int, bytes]) -> None:
    stage = Stage()
    [answer] = stage.request(message.POST, "mq/t", b"1", pairs=[pair])
    assert message.name(answer.code) == "4.00"
    assert answer.payload.decode()
    assert stage.log == []


@pytest.mark.parametrize(
    ("path", "code"), [("other", "4.04"), ("mq", "4.04"), ("mq/$SYS/x", "4.03"), ("mq/" + "/".join(["x"] * 129), "4.00")]
)
def test_paths_outside(path: str, code: str) -> None:
    assert message.name(Stage().request(message.POST, path, b"1")[0].code) == code


@pytest.mark.parametrize("code", [message.PATCH, message.IPATCH, 31])
def test_method_that_is_not_here(code: int) -> None:  # 7252-5.8, 8132
    assert message.name(Stage().request(code, "mq/t")[0].code) == "4.05"


def test_queries_become_fields_of_the_message() -> None:
    stage = Stage()
    query = ["key=k 1", "tag=hot", "mg=line-7", "delay_ms=1500", "ttl_ms=60000", "room=12"]
    stage.request(message.POST, "mq/t", b"1", query=query, pairs=[(option.CONTENT_FORMAT, bytes([50]))])
    found = properties.decode(stage.log[0][0].properties)
    del found["UNIQ_KEY"]
    assert found == {
        "HG_PROTOCOL": "coap", "KEYS": "k 1", "TAGS": "hot", "__SHARDINGKEY": "line-7", "q.room": "12",
        "HG_CONTENT_TYPE": "application/json", "TIMER_DELIVER_MS": str(stage.wall_ms + 1500),
        "HG_EXPIRE_MS": str(stage.wall_ms + 61_500),
    }  # fmt: skip


def test_value_expires() -> None:
    stage = Stage()
    stage.request(message.PUT, "mq/t", b"1", query=["ttl_ms=60000"])
    stage.advance(10)
    assert values(stage.request(message.GET, "mq/t")[0], option.MAX_AGE) == [bytes([50])]
    stage.advance(60)
    assert message.name(stage.request(message.GET, "mq/t")[0].code) == "4.04"


def test_accept_of_another_format_is_not_acceptable() -> None:  # TD_COAP_CORE_20, 7252-5.10.4
    stage = Stage()
    stage.request(message.PUT, "mq/t", b"{}", pairs=[(option.CONTENT_FORMAT, bytes([50]))])
    assert message.name(stage.request(message.GET, "mq/t", pairs=[(option.ACCEPT, bytes([50]))])[0].code) == "2.05"
    assert message.name(stage.request(message.GET, "mq/t", pairs=[(option.ACCEPT, bytes([60]))])[0].code) == "4.06"


def test_value_of_another_protocol_is_readable() -> None:
    stage = Stage()
    stage.publish("sensors/a", b"mqtt", True, properties.entry("HG_CONTENT_TYPE", "application/json; charset=utf-8"))
    [answer] = stage.request(message.GET, "mq/sensors/a")
    assert (answer.payload, values(answer, option.CONTENT_FORMAT)) == (b"mqtt", [bytes([50])])


def test_no_response_suppresses_classes() -> None:  # 7967-2.1
    stage = Stage()
    stage.hold = True
    assert stage.request(message.POST, "mq/t", b"1", kind=message.NON, pairs=[(option.NO_RESPONSE, bytes([26]))]) == []
    command = last(stage.commands, Send, 0)
    assert not command.wait
    assert stage.endpoint.replier.executing == 0
    stage.hold = False
    [answer] = stage.request(message.POST, "mq/t", b"1", pairs=[(option.NO_RESPONSE, b"\x02")])
    assert (answer.kind, answer.code) == (message.ACK, message.EMPTY)
    stage.refuse = Failure(ErrorCode.OVERLOADED, "full")
    [answer] = stage.request(message.POST, "mq/t", b"1", pairs=[(option.NO_RESPONSE, b"\x02")])
    assert message.name(answer.code) == "5.03"


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_error_has_a_code(code: ErrorCode) -> None:
    stage = Stage()
    stage.refuse = Failure(code, "why")
    [answer] = stage.request(message.POST, "mq/t", b"x" * 100)
    assert answer.code == status.CODES[code]
    assert answer.payload == b"why"
    assert answer.code >> 5 in (4, 5)
    assert bool(values(answer, option.MAX_AGE)) == (message.name(answer.code) in ("5.03", "4.29"))


def test_datagram_over_the_limit_is_too_large() -> None:
    [answer] = Stage().request(message.POST, "mq/t", b"x" * 9000)
    assert message.name(answer.code) == "4.13"
    assert values(answer, option.SIZE1)


def test_discovery() -> None:  # TD_COAP_LINK_01 to 09, 7252-7.2, 6690-4.1
    stage = Stage(amplification=0)
    [answer] = stage.request(message.GET, ".well-known/core")
    assert values(answer, option.CONTENT_FORMAT) == [bytes([40])]
    assert b'</mq>;rt="headgate.mq"' in answer.payload
    for query, found in {
        "rt=headgate.mq": True,
        "rt=head*": True,
        "rt=x": False,
        "href=/mq*": True,
        "ct=50": True,
        "if=core.b": True,
        "sz=4194304": True,
    }.items():
        [answer] = stage.request(message.GET, ".well-known/core", query=[query])
        assert (b"</mq>" in answer.payload) == found, query


def test_options_seen_before_mean_the_same() -> None:
    stage = Stage()
    for body in (b"1", b"\xff\xff", b"3" * 900):
        stage.request(message.POST, "mq/t/ÿ", body, query=["key=k"])
    assert [stored.body for stored, _ in stage.log] == [b"1", b"\xff\xff", b"3" * 900]
    assert len({stored.properties.split(b"UNIQ_KEY")[0] for stored, _ in stage.log}) == 1
    # a value that holds the payload marker is still a value
    raw = message.encode(message.CON, message.POST, 900, b"", message.join([(11, b"mq"), (11, b"t"), (292, b"\xff\xff")]), b"z")
    stage.raw(raw)
    stage.raw(raw[:2] + b"\x03\x85" + raw[4:])
    assert [stored.body for stored, _ in stage.log[3:]] == [b"z", b"z"]
    assert stage.now == 1000 * SECOND
