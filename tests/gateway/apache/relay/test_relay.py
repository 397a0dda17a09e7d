"""The relay at a broker's port and at the name server's: what passes, what is rewritten, and who pays for bad input."""

from __future__ import annotations

import logging

import pytest

from domain.access.access import Credentials, Signature
from domain.access.principal import Principal
from domain.errors import ErrorCode, Failure
from domain.ports import Entropy
from gateway.observe.counter_texts import COUNTERS
from protocols.remoting import codes
from protocols.remoting.wire import fastjson
from protocols.remoting.wire.frame import Frame, encode
from protocols.remoting.wire.header import BINARY, FLAG_ONEWAY, FLAG_RESPONSE, JSON
from tests.gateway.apache.relay.relay_bench import (
    FIRST_PORT,
    NAMESERVER_PORT,
    REMOTING_PORT,
    A,
    B,
    Client,
    RelayBench,
    Server,
    cluster_info,
    route,
)

PORT_A, PORT_B = FIRST_PORT, FIRST_PORT + 1
MIB = 1024 * 1024


def at_a(bench: RelayBench) -> tuple[Client, Server]:
    """A client at the port of broker-a, and its connection to the broker."""
    client = bench.client(PORT_A)
    client.ask(codes.HEARTBEAT, b"{}")
    server = bench.to(A).accept()
    [beat] = server.got()
    server.answer(beat)
    client.got()
    return client, server


def text(frame: Frame) -> str:
    return f"{frame.code}:{frame.remark}"


@pytest.fixture
def bench() -> RelayBench:
    return RelayBench().start()


def test_the_figures_are_on_the_metrics_page() -> None:
    assert set(RelayBench().relay.figures()) <= set(COUNTERS)


def test_each_broker_has_a_port_before_clients_come(bench: RelayBench) -> None:
    assert bench.opened == [PORT_A, PORT_B]
    assert dict(bench.brokers.ports) == {A: PORT_A, B: PORT_B}


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_requests_and_replies_pass_byte_for_byte(bench: RelayBench, serialize: int) -> None:
    client = bench.client(PORT_A)
    sent = b"".join(
        encode(310, opaque, fields={"n": "broker-a", "i": "k\x01v\x02"}, body=b"x" * 500, serialize=serialize)
        for opaque in (7, -8, 9)
    )
    client.send(sent)
    server = bench.to(A).accept()
    assert b"".join(server.transport.writes) == sent
    back = b"".join(
        encode(0, opaque, fields={"msgId": "1"}, flag=FLAG_RESPONSE, body=b"", serialize=serialize) for opaque in (-8, 9, 7)
    )
    for at in range(0, len(back), 11):
        server.say(back[at : at + 11])
    bench.clock.run_turn()
    assert b"".join(client.transport.writes) == back
    assert bench.relay.unanswered_bytes() == 0


def test_frames_of_one_slice_are_one_write(bench: RelayBench) -> None:
    client, server = at_a(bench)
    client.send(b"".join(encode(310, opaque, fields={"n": "broker-a"}, body=b"x") for opaque in range(100, 104)))
    assert len(server.transport.writes) == 1
    server.say(b"".join(encode(0, opaque, flag=FLAG_RESPONSE) for opaque in range(100, 104)))
    bench.clock.run_turn()
    assert len(client.transport.writes) == 1


def test_clients_have_connections_of_their_own_which_end_with_them(bench: RelayBench) -> None:
    first, first_server = at_a(bench)
    second, second_server = at_a(bench)
    assert first_server is not second_server
    first.pump.connection_lost(None)
    assert first_server.stopped
    assert first_server.transport.aborted
    second.ask(310, n="broker-a")
    assert [frame.code for frame in second_server.got()] == [310]


def test_oneways_of_both_sides_stay_oneways(bench: RelayBench) -> None:
    client, server = at_a(bench)
    client.ask(15, oneway=True, bname="broker-a")
    [commit] = server.got()
    assert commit.oneway
    checked = encode(39, 5, fields={"bname": "broker-a"}, body=b"half", flag=FLAG_ONEWAY)
    server.say(checked)
    bench.clock.run_turn()
    assert b"".join(client.transport.writes) == checked
    assert bench.relay.unanswered_bytes() == 0


def test_a_request_of_the_broker_is_answered_by_the_client(bench: RelayBench) -> None:
    client, server = at_a(bench)
    server.say(encode(307, 1, fields={"consumerGroup": "g"}))
    [asked] = client.got()
    assert (asked.code, asked.opaque) == (307, 1)
    client.send(encode(0, asked.opaque, flag=FLAG_RESPONSE, body=b"{}"))
    [answer] = server.got()
    assert (answer.response, answer.opaque, answer.body) == (True, 1, b"{}")
    client.send(encode(0, asked.opaque, flag=FLAG_RESPONSE, body=b"again"))
    assert server.got() == []


def test_a_lost_broker_ends_its_clients_with_their_answers_and_nobody_else(
    bench: RelayBench, caplog: pytest.LogCaptureFixture
) -> None:
    client, server = at_a(bench)
    other = bench.client(PORT_B)
    other.ask(11, bname="broker-b")
    bench.to(B).accept()
    client.ask(310, n="broker-a")
    with caplog.at_level(logging.WARNING):
        server.lose()
    [refused] = client.got()
    assert refused.code == codes.SERVICE_NOT_AVAILABLE
    assert A in refused.remark
    assert client.closed
    assert not other.closed
    assert f"broker-a at {A}" in caplog.text
    assert "1 requests of a client were not answered" in caplog.text


def test_a_broker_that_is_not_there_is_tried_once_for_all_clients(bench: RelayBench) -> None:
    client = bench.client(PORT_A)
    client.ask(310, n="broker-a")
    dialled = len(bench.servers)
    bench.to(A).refuse("no connection (refused)")
    [refused] = client.got()
    assert refused.code == codes.SERVICE_NOT_AVAILABLE
    for _ in range(5):
        another = bench.client(PORT_A)
        another.ask(310, n="broker-a")
        assert [frame.code for frame in another.got()] == [codes.SERVICE_NOT_AVAILABLE]
    assert len(bench.servers) == dialled
    bench.second()
    bench.client(PORT_A).ask(310, n="broker-a")
    assert len(bench.servers) == dialled + 1


@pytest.mark.parametrize(
    "nonsense",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x01\x00\x00\x00", b"\x00\xff\xff\xff\x00",
     b"\x00\x00\x00\x10\x02\x00\x00\x08" + b"x" * 12,
     b"\x00\x00\x00\x08\x00\x00\x00\x04nope"],
)  # fmt: skip
def test_a_broker_that_talks_nonsense_costs_that_connection(
    bench: RelayBench, nonsense: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    client, server = at_a(bench)
    other = bench.client(PORT_B)
    other.ask(11, bname="broker-b")
    client.ask(310, n="broker-a")
    with caplog.at_level(logging.WARNING):
        server.say(nonsense)
    assert [frame.code for frame in client.got()] == [codes.SERVICE_NOT_AVAILABLE]
    assert client.closed
    assert server.transport.aborted
    assert not other.closed
    assert f"broker-a at {A}: it has sent what is no frame" in caplog.text


def test_half_a_frame_of_a_broker_never_reaches_the_client(bench: RelayBench, caplog: pytest.LogCaptureFixture) -> None:
    client, server = at_a(bench)
    opaque = client.ask(11, bname="broker-a")
    server.say(encode(0, opaque, flag=FLAG_RESPONSE, body=b"m" * 1000)[:400])
    with caplog.at_level(logging.WARNING):
        server.lose()
    [refused] = client.got()
    assert (refused.code, refused.opaque) == (codes.SERVICE_NOT_AVAILABLE, opaque)
    assert "within a frame, of which 400 bytes had come" in caplog.text


def test_codes_that_nobody_knows_pass(bench: RelayBench) -> None:
    client, server = at_a(bench)
    opaque = client.ask(29_999, what="is this")
    assert [frame.code for frame in server.got()] == [29_999]
    server.say(encode(4_711, opaque, flag=FLAG_RESPONSE, remark="new"))
    assert [(frame.code, frame.opaque) for frame in client.got()] == [(4_711, opaque)]


def test_requests_that_are_numbered_alike_all_get_their_answers(bench: RelayBench) -> None:
    client, server = at_a(bench)
    client.send(encode(310, 0, fields={"n": "broker-a"}) * 3)
    server.say(encode(0, 0, flag=FLAG_RESPONSE) * 3)
    assert [(frame.code, frame.opaque) for frame in client.got()] == [(0, 0)] * 3
    assert bench.relay.unanswered_bytes() == 0


@pytest.mark.parametrize("data", [b"\x02\x00", b"\x00\x00\x00\x10\x05\x00\x00\x08" + b"x" * 12, b"\x00\xff\xff\xff\xff"])
def test_a_client_that_talks_nonsense_is_closed_with_its_connections(bench: RelayBench, data: bytes) -> None:
    client, server = at_a(bench)
    client.send(data)
    assert client.closed
    assert server.transport.aborted


def test_what_a_slow_broker_has_not_read_stops_its_client_alone(bench: RelayBench) -> None:
    client, server = at_a(bench)
    other, _ = at_a(bench)
    server.wire.pause_writing()
    bench.clock.run_turn()
    assert not client.transport.reading
    assert other.transport.reading
    server.wire.resume_writing()
    bench.clock.run_turn()
    assert client.transport.reading


def test_unanswered_bytes_are_bounded() -> None:
    bench = RelayBench(unanswered_bytes=MIB).start()
    client, server = at_a(bench)
    frame = encode(310, 50, fields={"n": "broker-a"}, body=b"x" * 600_000)
    client.send(frame)
    assert client.transport.reading
    client.send(encode(310, 51, fields={"n": "broker-a"}, body=b"x" * 600_000))
    assert not client.transport.reading
    server.say(encode(0, 50, flag=FLAG_RESPONSE))
    bench.clock.run_turn()
    assert client.transport.reading
    assert bench.relay.unanswered_bytes() < MIB


def test_a_broker_that_never_answers_does_not_keep_its_client_unread_for_ever() -> None:
    bench = RelayBench(unanswered_bytes=MIB).start()
    client, _ = at_a(bench)
    for opaque in (50, 51):
        client.send(encode(310, opaque, fields={"n": "broker-a"}, body=b"x" * 600_000))
    assert not client.transport.reading
    bench.second(61)
    bench.clock.run_turn()
    assert client.transport.reading


def test_a_client_that_does_not_read_stops_its_broker_connection_alone(bench: RelayBench) -> None:
    client, server = at_a(bench)
    _, other = at_a(bench)
    client.pump.pause_writing()
    assert not server.transport.reading
    assert other.transport.reading
    client.pump.resume_writing()
    assert server.transport.reading


def test_what_waits_for_a_connection_is_bounded() -> None:
    bench = RelayBench(unanswered_bytes=MIB).start()
    client = bench.client(PORT_A)
    for opaque in (50, 51):
        client.send(encode(310, opaque, fields={"n": "broker-a"}, body=b"x" * 600_000))
    assert not client.transport.reading
    server = bench.to(A).accept()
    assert [frame.opaque for frame in server.got()] == [50, 51]


def test_what_all_clients_have_waiting_is_bounded(bench: RelayBench) -> None:
    """A host gets at most half of the bound; what is beyond is refused, and other hosts go on."""
    bench.relay.servers.held.bytes_max = 48 * 1024
    frame = encode(310, 50, fields={"n": "broker-a"}, body=b"x" * 8 * 1024)
    clients = [bench.client(PORT_A) for _ in range(6)]
    for each in clients:
        each.send(frame)
        bench.second()
    refused = [each for each in clients if [one.code for one in each.got()] == [codes.SYSTEM_BUSY]]
    assert clients[2:] == refused
    assert bench.relay.servers.held.bytes_held == 2 * len(frame)
    neighbour = bench.client(PORT_A, "10.9.9.9")
    neighbour.send(frame)
    bench.second()
    assert neighbour.got() == []
    for server in bench.servers:
        server.accept()
    assert bench.relay.servers.held.bytes_held == 0


def test_what_a_slow_broker_leaves_waiting_counts_until_it_reads(bench: RelayBench) -> None:
    client, server = at_a(bench)
    server.wire.pause_writing()
    client.ask(310, b"x" * 500, n="broker-a")
    assert bench.relay.servers.held.bytes_held > 500
    server.wire.resume_writing()
    assert bench.relay.servers.held.bytes_held == 0
    server.wire.pause_writing()
    client.ask(310, b"x" * 500, n="broker-a")
    client.pump.connection_lost(None)
    assert bench.relay.servers.held.bytes_held == 0


# At the port of the name server


def nameserver(bench: RelayBench) -> tuple[Client, Server]:
    client = bench.client(NAMESERVER_PORT)
    client.ask(codes.GET_ROUTE, topic="t")
    return client, bench.next().accept()


def test_a_route_names_the_ports_of_the_gateway_and_keeps_all_else(bench: RelayBench) -> None:
    client, server = nameserver(bench)
    [asked] = server.got()
    server.answer(asked, body=route("broker-a", "broker-b"))
    [answer] = client.got()
    found = fastjson.loads(answer.body)
    wanted = fastjson.loads(route("broker-a", "broker-b").replace(A.encode(), b"gw:10921").replace(B.encode(), b"gw:10922"))
    assert found == wanted


def test_the_cluster_and_members_name_the_ports_of_the_gateway(bench: RelayBench) -> None:
    client, server = nameserver(bench)
    server.got()
    client.ask(codes.GET_CLUSTER)
    client.ask(codes.GET_BROKER_MEMBERS, brokerName="broker-a")
    client.ask(304)
    cluster, members, system = server.got()
    server.answer(cluster, body=cluster_info("broker-a"))
    server.answer(
        members, body=b'{"brokerMemberGroup":{"brokerAddrs":{0:"%s"},"brokerName":"broker-a","cluster":"C"}}' % A.encode()
    )
    server.answer(system, body=b'{"brokerAddr":"%s","topicList":["C"]}' % B.encode())
    bodies = [frame.body for frame in client.got()]
    assert b'"0":"gw:10921"' in bodies[0]
    assert bodies[1] == b'{"brokerMemberGroup":{"brokerAddrs":{"0":"gw:10921"},"brokerName":"broker-a","cluster":"C"}}'
    assert bodies[2] == b'{"brokerAddr":"gw:10922","topicList":["C"]}'


@pytest.mark.parametrize(
    "body",
    [b"[]", b"<html>", b'{"brokerDatas":[1]}', b'{"brokerDatas":[{"brokerName":"a"}]}', b"\xff\xfe",
     b'{"brokerDatas":[{"brokerName":"a","cluster":"C","brokerAddrs":{"x":"1.2.3.4:5"}}]}',
     b'{"brokerDatas":[{"brokerName":"a","cluster":"C","brokerAddrs":{"0":7}}]}'],
)  # fmt: skip
def test_a_route_that_cannot_be_read_is_a_refusal(bench: RelayBench, body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    client, server = nameserver(bench)
    [asked] = server.got()
    with caplog.at_level(logging.WARNING):
        server.answer(asked, body=body)
    [answer] = client.got()
    assert (answer.code, answer.opaque) == (codes.SYSTEM_ERROR, asked.opaque)
    assert "cannot be read" in answer.remark
    assert "was not given on" in caplog.text
    assert not client.closed


def test_slaves_and_replicas_without_a_role_have_ports_too(bench: RelayBench) -> None:
    client, server = nameserver(bench)
    [asked] = server.got()
    several = b'"0":"%s","1":"10.0.0.3:10911","-1":"10.0.0.4:10911"' % A.encode()
    server.answer(asked, body=route("broker-a").replace(b'"0":"%s"' % A.encode(), several))
    assert b'"brokerAddrs":{"-1":"gw:10924","0":"gw:10921","1":"gw:10923"}' in client.got()[0].body
    assert bench.brokers.master("broker-a") == A


def test_an_address_that_is_none_stays_as_it_is(bench: RelayBench) -> None:
    client, server = nameserver(bench)
    [asked] = server.got()
    server.answer(asked, body=route("broker-a").replace(A.encode(), b"no address"))
    [answer] = client.got()
    assert b'"0":"no address"' in answer.body


def test_refusals_of_a_name_server_pass(bench: RelayBench) -> None:
    client, server = nameserver(bench)
    [asked] = server.got()
    server.answer(asked, codes.TOPIC_NOT_EXIST, remark="No topic route info")
    [answer] = client.got()
    assert text(answer) == "17:No topic route info"


def test_the_next_name_server_is_tried_when_one_is_not_there(bench: RelayBench) -> None:
    client = bench.client(NAMESERVER_PORT)
    client.ask(codes.GET_ROUTE, topic="t")
    first = bench.next()
    first.refuse("no connection")
    second = bench.next()
    assert second.where != first.where
    second.accept()
    assert [frame.code for frame in second.got()] == [codes.GET_ROUTE]


def test_with_no_name_server_the_client_is_told(bench: RelayBench) -> None:
    client = bench.client(NAMESERVER_PORT)
    client.ask(codes.GET_ROUTE, topic="t")
    bench.next().refuse("no connection")
    bench.next().refuse("no connection")
    assert [frame.code for frame in client.got()] == [codes.SERVICE_NOT_AVAILABLE]
    assert client.closed


def test_a_change_at_the_name_servers_goes_to_all_and_fails_when_one_refuses(bench: RelayBench) -> None:
    client = bench.client(NAMESERVER_PORT)
    opaque = client.ask(205, brokerName="broker-a")
    both = [each.accept() for each in bench.servers[-2:]]
    assert {each.where for each in both} == {"10.0.0.9:9876", "10.0.0.8:9876"}
    first, second = both
    first.answer(first.got()[0], 1, remark="disk full")
    assert client.got() == []
    second.answer(second.got()[0])
    [answer] = client.got()
    assert (answer.opaque, text(answer)) == (opaque, "1:disk full")


def test_brokers_do_not_register_through_a_gateway(bench: RelayBench) -> None:
    client = bench.client(NAMESERVER_PORT)
    client.ask(103, brokerName="evil")
    assert [frame.code for frame in client.got()] == [codes.NOT_SUPPORTED]


# Ports


def test_ports_are_kept_over_a_restart_and_taken_ones_are_passed_over() -> None:
    bench = RelayBench()
    bench.taken.add(FIRST_PORT)
    bench.start()
    assert bench.kept == {A: FIRST_PORT + 1, B: FIRST_PORT + 2}
    again = RelayBench(kept=bench.kept)
    again.start("broker-b")
    assert again.opened == [FIRST_PORT + 2]


def test_brokers_beyond_the_bound_keep_their_own_address(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        bench = RelayBench(brokers_max=1).start()
    client, server = nameserver(bench)
    server.answer(server.got()[0], body=route("broker-a", "broker-b"))
    [answer] = client.got()
    assert b"gw:10921" in answer.body
    assert B.encode() in answer.body
    assert "more than 1 brokers" in caplog.text


def test_without_ports_clients_that_name_no_broker_get_the_brokers_own_addresses() -> None:
    bench = RelayBench(broker_ports=0).start()
    for version, wanted in ((513, f"gw:{REMOTING_PORT}"), (395, A)):
        client = bench.client(NAMESERVER_PORT)
        client.ask(codes.GET_ROUTE, version=version, topic="t")
        server = bench.next().accept()
        server.answer(server.got()[0], body=route("broker-a"))
        assert wanted.encode() in client.got()[0].body


def test_a_broker_that_comes_later_gets_a_port() -> None:
    bench = RelayBench().start("broker-a")
    assert bench.opened == [PORT_A]
    bench.notify("broker-a", "broker-b")
    assert bench.opened == [PORT_A, PORT_A + 1]
    bench.notify("broker-b")
    assert bench.brokers.masters() == [B]
    bench.notify()
    assert bench.brokers.masters() == [B]


# Access


class Book:
    """Knows the key `ada` alone, and notes whom it was asked about."""

    def __init__(self) -> None:
        self.asked: list[str | None] = []

    def authenticate(self, credentials: Credentials | None, host: str, certified: str = "") -> Principal | Failure:
        name = credentials.user if isinstance(credentials, Signature) else None
        self.asked.append(name)
        if name == "ada":
            return Principal("ada", host)
        return Failure(ErrorCode.NOT_AUTHENTICATED, "the user is not known here")

    def converse(self, method: str, host: str, entropy: Entropy) -> None:
        """Not asked."""


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_signatures_are_checked_here_too_when_that_is_wanted(serialize: int) -> None:
    book = Book()
    bench = RelayBench(authority=book).start()
    client = bench.client(PORT_A)
    known = encode(310, 1, fields={"AccessKey": "ada", "Signature": "AAAA", "n": "broker-a"}, serialize=serialize)
    strange = encode(310, 2, fields={"AccessKey": "eve", "Signature": "AAAA", "n": "broker-a"}, serialize=serialize)
    nobody = encode(310, 3, fields={"n": "broker-a"}, serialize=serialize)
    again = encode(310, 4, fields={"AccessKey": "ada", "Signature": "AAAA", "n": "broker-a"}, serialize=serialize)
    client.send(known + strange + nobody + again)
    server = bench.to(A).accept()
    assert b"".join(server.transport.writes) == known + again
    assert [(frame.code, frame.opaque) for frame in client.got()] == [(codes.NO_PERMISSION, 2), (codes.NO_PERMISSION, 3)]
    assert book.asked == ["ada", "eve", None, "ada"]
