"""The relay at the remoting port, where requests say which broker they are for."""

from __future__ import annotations

import pytest

from protocols.remoting import codes
from protocols.remoting.wire.frame import encode
from protocols.remoting.wire.header import BINARY, FLAG_ONEWAY, FLAG_RESPONSE, JSON
from tests.gateway.apache.relay.relay_bench import FIRST_PORT, REMOTING_PORT, A, B, Client, RelayBench, Server, route


def both(bench: RelayBench) -> tuple[Client, Server, Server]:
    """A client of both brokers, which have answered its heartbeat."""
    client = bench.client(REMOTING_PORT)
    client.ask(codes.HEARTBEAT, b"{}")
    first, second = bench.to(A).accept(), bench.to(B).accept()
    for each in (first, second):
        each.answer(each.got()[0])
    assert [frame.code for frame in client.got()] == [0]
    return client, first, second


@pytest.fixture
def bench() -> RelayBench:
    return RelayBench(broker_ports=0).start()


@pytest.mark.parametrize("serialize", [JSON, BINARY])
@pytest.mark.parametrize(
    ("code", "fields", "body"),
    [(11, {"bname": "broker-b"}, b""), (310, {"n": "broker-b"}, b"x"), (320, {"n": "broker-b"}, b"x"),
     (41, {}, b'{"clientId":"c","consumerGroup":"g","mqSet":[{"brokerName":"broker-b","queueId":0,"topic":"T"}]}'),
     (42, {}, b'{"mqSet":[{"brokerName":"broker-b","queueId":0,"topic":"T"}]}'),
     (15, {"bname": "broker-b"}, b"")],
)  # fmt: skip
def test_a_request_goes_to_the_broker_that_it_names(
    bench: RelayBench, code: int, fields: dict[str, str], body: bytes, serialize: int
) -> None:
    client = bench.client(REMOTING_PORT)
    client.send(encode(code, 1, fields=fields, body=body, serialize=serialize))
    assert [frame.code for frame in bench.to(B).accept().got()] == [code]


def test_acknowledgements_of_a_batch_go_to_their_broker(bench: RelayBench) -> None:
    client = bench.client(REMOTING_PORT)
    client.ask(codes.BATCH_ACK, b'{"acks":[{"b":"CQI=","c":"g"}],"brokerName":"broker-b"}')
    assert [frame.code for frame in bench.to(B).accept().got()] == [codes.BATCH_ACK]


def test_a_chunk_is_shared_out_in_order(bench: RelayBench) -> None:
    client, first, second = both(bench)
    names = ["a", "a", "b", "a", "b", "b"]
    client.send(b"".join(encode(310, 100 + at, fields={"n": f"broker-{name}"}) for at, name in enumerate(names)))
    assert [frame.opaque for frame in first.got()] == [100, 101, 103]
    assert [frame.opaque for frame in second.got()] == [102, 104, 105]
    second.say(encode(0, 104, flag=FLAG_RESPONSE))
    first.say(encode(0, 100, flag=FLAG_RESPONSE))
    assert [frame.opaque for frame in client.got()] == [104, 100]


def test_requests_of_several_brokers_with_one_number_get_their_own_answers(bench: RelayBench) -> None:
    client, first, second = both(bench)
    for serialize in (JSON, BINARY):
        for server in (first, second):
            server.say(encode(307, 1, fields={"consumerGroup": "g"}, serialize=serialize))
        asked = client.got()
        assert [frame.code for frame in asked] == [307, 307]
        assert asked[0].opaque != asked[1].opaque
        assert all(frame.fields() == {"consumerGroup": "g"} for frame in asked)
        for frame, body in zip(reversed(asked), (b"of b", b"of a"), strict=True):
            client.send(encode(0, frame.opaque, flag=FLAG_RESPONSE, body=body, serialize=serialize))
        assert [(frame.opaque, frame.body) for frame in first.got()] == [(1, b"of a")]
        assert [(frame.opaque, frame.body) for frame in second.got()] == [(1, b"of b")]


def test_a_heartbeat_is_answered_once_and_by_who_lives(bench: RelayBench) -> None:
    client = bench.client(REMOTING_PORT)
    client.ask(codes.HEARTBEAT, b"{}")
    bench.to(A).refuse("no connection")
    assert client.got() == []
    living = bench.to(B).accept()
    living.answer(living.got()[0])
    assert [frame.code for frame in client.got()] == [0]
    assert not client.closed


def test_a_broker_that_comes_back_is_told_of_the_client_first(bench: RelayBench) -> None:
    client, first, _ = both(bench)
    opaque = client.ask(11, bname="broker-a")
    first.got()
    first.lose()
    assert [(frame.code, frame.opaque) for frame in client.got()] == [(codes.SERVICE_NOT_AVAILABLE, opaque)]
    assert not client.closed
    bench.second()
    client.ask(11, bname="broker-a")
    beat, pull = bench.to(A).accept().got()
    assert (beat.code, beat.flag, beat.body) == (codes.HEARTBEAT, FLAG_ONEWAY, b"{}")
    assert pull.code == 11


def test_a_slow_broker_is_refused_and_the_other_goes_on(bench: RelayBench) -> None:
    client, first, second = both(bench)
    first.wire.pause_writing()
    client.ask(310, n="broker-a")
    assert [frame.code for frame in client.got()] == [codes.SYSTEM_BUSY]
    client.ask(310, n="broker-b")
    assert [frame.code for frame in second.got()] == [310]
    assert client.transport.reading


def test_an_unknown_broker_is_refused_until_the_name_servers_tell_of_it() -> None:
    bench = RelayBench(broker_ports=0).start("broker-a")
    client = bench.client(REMOTING_PORT)
    client.ask(310, n="broker-b")
    assert [frame.code for frame in client.got()] == [codes.SERVICE_NOT_AVAILABLE]
    bench.notify("broker-a", "broker-b")
    client.ask(310, n="broker-b")
    assert [frame.code for frame in bench.to(B).accept().got()] == [310]


def test_a_request_that_names_no_broker_is_told_the_ports() -> None:
    bench = RelayBench().start()
    client = bench.client(REMOTING_PORT)
    client.ask(28)
    [refused] = client.got()
    assert refused.code == codes.NOT_SUPPORTED
    assert f"broker-a {FIRST_PORT}" in refused.remark


def test_the_only_broker_gets_what_names_none() -> None:
    bench = RelayBench(broker_ports=0).start("broker-a")
    client = bench.client(REMOTING_PORT)
    client.ask(28)
    assert [frame.code for frame in bench.to(A).accept().got()] == [28]


def test_before_any_broker_is_known_requests_are_refused() -> None:
    bench = RelayBench(broker_ports=0)
    client = bench.client(REMOTING_PORT)
    client.ask(310, n="broker-a")
    assert [frame.code for frame in client.got()] == [codes.SERVICE_NOT_AVAILABLE]


def test_name_server_requests_are_served_at_the_same_port(bench: RelayBench) -> None:
    client = bench.client(REMOTING_PORT)
    client.ask(codes.GET_ROUTE, topic="t")
    server = bench.next().accept()
    server.answer(server.got()[0], body=route("broker-a"))
    assert f"gw:{REMOTING_PORT}".encode() in client.got()[0].body


def test_a_name_at_the_wrong_port_counts() -> None:
    bench = RelayBench().start()
    client = bench.client(FIRST_PORT)
    client.ask(11, bname="broker-b")
    assert [frame.code for frame in bench.to(B).accept().got()] == [11]
