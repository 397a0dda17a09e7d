"""The blocking client against a broker in memory: its requests, its results, its errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from domain.message.record import Record
from gateway.client.answer import ClientError, GarbledError, QueueRoute, RejectedError, UnknownTopicError, UnreachableError
from gateway.client.client import Client
from gateway.client.request import ROUTE
from protocols.remoting.wire.frame import encode
from tests.gateway.client.fake_broker import BROKER, FakeBroker, Liar, frame_of


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker() as broker:
        yield broker


@pytest.fixture
def client(broker: FakeBroker) -> Iterator[Client]:
    with Client(broker.address, timeout_s=2, retry_s=2) as client:
        yield client


def bodies(client: Client, queue: QueueRoute, start: int, end: int) -> list[bytes]:
    out: list[bytes] = []
    for pull in client.scan(queue, start, end):
        at = 0
        while at < len(pull.body):
            size = int.from_bytes(pull.body[at : at + 4], "big")
            out.append(Record(pull.body[at : at + size]).body)
            at += size
    return out


def test_topics_and_route_name_what_there_is(broker: FakeBroker, client: Client) -> None:
    queues = broker.create("orders", 3)
    assert client.topics() == ["orders"]
    assert client.route("orders").queues == queues
    assert client.route("orders").addresses == {BROKER: broker.address}


def test_an_unknown_topic_is_an_error_at_once(broker: FakeBroker, client: Client) -> None:
    with pytest.raises(UnknownTopicError, match="'orders' is not known to nameserver"):
        client.route("orders")
    assert [code for code, _ in broker.seen].count(ROUTE) == 1


def test_bounds_of_many_queues_take_two_exchanges(broker: FakeBroker, client: Client) -> None:
    queues = broker.create("orders", 700)
    for at in range(5):
        broker.put("orders", b"x", at)
    broker.put("orders", b"x", 4)
    broker.expire("orders", 4, 1)
    bounds = client.bounds(queues)
    assert [bounds[queue][:2] for queue in queues[:6]] == [(0, 1), (0, 1), (0, 1), (0, 1), (1, 2), (0, 0)]


def test_scan_reads_exactly_the_range_in_order(broker: FakeBroker, client: Client) -> None:
    [queue] = broker.create("orders")
    for at in range(100):
        broker.put("orders", b"%d" % at)
    broker.pull_max = 7
    assert bodies(client, queue, 10, 90) == [b"%d" % at for at in range(10, 90)]


def test_scan_pulls_ahead_of_the_reader(broker: FakeBroker, client: Client) -> None:
    [queue] = broker.create("orders")
    for _ in range(20):
        broker.put("orders", b"x")
    broker.pull_max = 5
    pulls = client.scan(queue, 0, 20)
    next(pulls)
    for _ in range(200):
        asked = [fields["queueOffset"] for code, fields in broker.seen if code == 11]
        if len(asked) == 2:
            break
        time.sleep(0.01)
    assert asked == ["0", "5"]


def test_an_abandoned_scan_does_not_mix_with_the_next_request(broker: FakeBroker, client: Client) -> None:
    [queue] = broker.create("orders")
    for at in range(20):
        broker.put("orders", b"%d" % at)
    broker.pull_max = 5
    next(client.scan(queue, 0, 20))
    assert bodies(client, queue, 3, 6) == [b"3", b"4", b"5"]
    assert client.bounds([queue])[queue][:2] == (0, 20)


def test_scan_says_when_the_offset_is_gone_or_ahead(broker: FakeBroker, client: Client) -> None:
    [queue] = broker.create("orders")
    for _ in range(10):
        broker.put("orders", b"x")
    broker.expire("orders", 0, 4)
    [gone] = client.scan(queue, 0, 10)
    assert (gone.status, gone.min_offset, gone.max_offset, gone.body) == ("MOVED", 4, 10, b"")
    [end] = client.scan(queue, 10, 12)
    assert end.status == "EMPTY"
    [ahead] = client.scan(queue, 11, 12)
    assert (ahead.status, ahead.max_offset) == ("MOVED", 10)


def test_search_finds_the_first_at_or_after(broker: FakeBroker, client: Client) -> None:
    [queue] = broker.create("orders")
    for at in range(10):
        broker.put("orders", b"x", store_ms=1000 + 10 * at)
    assert client.search([queue], 1035) == {queue: 4}
    assert client.search([queue], 9999) == {queue: 10}


def test_search_that_answers_minus_one_means_the_end(broker: FakeBroker, client: Client) -> None:
    [queue] = broker.create("orders")
    broker.put("orders", b"x")
    client.route("orders")
    broker.search_misses = -1
    assert client.search([queue], 1_800_000_000_000) == {queue: 1}


def test_reads_are_retried_after_a_lost_connection(broker: FakeBroker, client: Client) -> None:
    [queue] = broker.create("orders")
    for at in range(50):
        broker.put("orders", b"%d" % at)
    broker.pull_max = 5
    pulls = client.scan(queue, 0, 50)
    next(pulls)
    broker.hang_up = 3
    assert sum(pull.body.count(b"\xda\xa3\x20\xa7") for pull in pulls) == 45


def test_reads_wait_for_a_server_that_comes_back(broker: FakeBroker) -> None:
    [queue] = broker.create("orders")
    broker.put("orders", b"x")
    client = Client(broker.address, timeout_s=1, retry_s=20)
    assert client.bounds([queue])[queue][:2] == (0, 1)
    broker.__exit__()
    client.close()
    again = threading.Timer(0.5, broker.__enter__)
    again.start()
    assert client.bounds([queue])[queue][:2] == (0, 1)
    again.join()


def test_busy_replies_are_retried(broker: FakeBroker, client: Client) -> None:
    [queue] = broker.create("orders")
    broker.put("orders", b"x")
    broker.answers[11] = [(2, "busy"), (14, "starting")]
    broker.answers[31] = [(2, "busy")]
    assert bodies(client, queue, 0, 1) == [b"x"]
    assert client.bounds([queue])[queue][:2] == (0, 1)


def test_other_refusals_are_raised_as_they_came(broker: FakeBroker, client: Client) -> None:
    [queue] = broker.create("orders")
    broker.answers[11] = [(16, "not for you")]
    with pytest.raises(RejectedError, match="code 16 not for you") as caught:
        next(client.scan(queue, 0, 1))
    assert caught.value.code == 16


def test_a_server_that_does_not_answer_is_an_error_after_the_timeout(broker: FakeBroker) -> None:
    broker.silent = True
    expected = f"no answer within 0.5 s.*{broker.address} did not answer within 0.2 s"
    with Client(broker.address, timeout_s=0.2, retry_s=0.5) as client, pytest.raises(UnreachableError, match=expected):
        client.topics()


def test_a_closed_port_is_unreachable() -> None:
    with FakeBroker() as gone:
        address = gone.address
    with Client(address, retry_s=0.2) as client, pytest.raises(UnreachableError, match=f"cannot connect to {address}"):
        client.topics()


def test_the_second_nameserver_is_asked_when_the_first_is_down(broker: FakeBroker) -> None:
    broker.create("orders")
    with FakeBroker() as gone:
        address = gone.address
    with Client(f"{address};{broker.address}", retry_s=0) as client:
        assert client.topics() == ["orders"]


@pytest.mark.parametrize("address", ["localhost", "localhost:x", ":"])
def test_addresses_are_host_and_port(address: str) -> None:
    with Client(address, retry_s=0) as client, pytest.raises(UnreachableError, match="it is written host:port"):
        client.topics()


def test_no_nameserver_is_an_error() -> None:
    with pytest.raises(ClientError, match="no nameserver given"):
        Client(" ; ")


@pytest.mark.parametrize(
    "data",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\x08\x07\0\0\x02{}  ", b"\0\0\0\x0a\0\0\0\x06nojson"],
)
def test_a_server_of_another_protocol_is_named(data: bytes) -> None:
    says = pytest.raises(GarbledError, match="does not speak the remoting protocol")
    with Liar(data) as liar, Client(liar.address, retry_s=0) as client, says:
        client.topics()


def test_malformed_replies_are_garbled(broker: FakeBroker) -> None:
    with Liar(frame_of(0)) as liar, Client(liar.address, retry_s=0) as client, pytest.raises(GarbledError, match="not JSON"):
        client.topics()
    [queue] = broker.create("orders")
    with Liar(frame_of(0, nextBeginOffset="x")) as liar, Client(broker.address, retry_s=0) as client:
        client.route("orders").addresses[BROKER] = liar.address
        client.close()
        with pytest.raises(GarbledError, match="without a number 'nextBeginOffset'"):
            next(client.scan(queue, 0, 1))


def test_a_scan_that_makes_no_progress_is_garbled(broker: FakeBroker) -> None:
    [queue] = broker.create("orders")
    data = frame_of(0, nextBeginOffset="3", minOffset="0", maxOffset="9")
    with Liar(data) as liar, Client(broker.address, retry_s=0) as client:
        client.route("orders").addresses[BROKER] = liar.address
        with pytest.raises(GarbledError, match="does not lead on"):
            next(client.scan(queue, 3, 9))


def test_a_scan_ends_with_an_answer_without_messages_that_does_not_lead_on(broker: FakeBroker) -> None:
    [queue] = broker.create("orders")
    data = frame_of(20, nextBeginOffset="3", minOffset="0", maxOffset="9")
    with Liar(data) as liar, Client(broker.address, retry_s=0) as client:
        client.route("orders").addresses[BROKER] = liar.address
        [last] = client.scan(queue, 3, 9)
        assert (last.status, last.next_offset) == ("NO_MATCH", 3)


def test_send_carries_tag_keys_and_user_properties(broker: FakeBroker, client: Client) -> None:
    broker.create("orders", 2)
    sent = client.send("orders", b"hello", tag="new", keys=["a", "b"], user={"colour": "red"}, queue_id=1)
    assert (sent.queue, sent.offset, sent.message_id) == (QueueRoute(BROKER, "orders", 1), 0, "MINTED")
    [stored] = broker.queues["orders", 1]
    assert Record(stored).body == b"hello"
    assert Record(stored).properties == b"TAGS\x01new\x02KEYS\x01a b\x02colour\x01red\x02UNIQ_KEY\x01MINTED\x02"


def test_send_spreads_over_queues_and_keeps_a_group_together(broker: FakeBroker, client: Client) -> None:
    broker.create("orders", 4)
    assert {client.send("orders", b"x").queue.queue_id for _ in range(4)} == {0, 1, 2, 3}
    assert len({client.send("orders", b"x", message_group="g").queue.queue_id for _ in range(4)}) == 1


def test_send_to_a_new_topic_goes_by_the_template(broker: FakeBroker, client: Client) -> None:
    broker.create("TBW102", 2)
    assert client.send("fresh", b"x").queue.topic == "fresh"
    assert "fresh" in client.topics()


def test_a_send_is_never_retried(broker: FakeBroker, client: Client) -> None:
    broker.create("orders")
    client.route("orders")
    broker.hang_up = 1
    with pytest.raises(UnreachableError, match="may or may not have been stored"):
        client.send("orders", b"x")
    assert broker.queues["orders", 0] == []


def test_send_that_is_refused_says_why(broker: FakeBroker, client: Client) -> None:
    broker.create("orders")
    broker.answers[310] = [(13, "body too large")]
    with pytest.raises(RejectedError, match="code 13 body too large"):
        client.send("orders", b"x")


def test_send_to_a_queue_that_is_not_there(broker: FakeBroker, client: Client) -> None:
    broker.create("orders")
    with pytest.raises(ClientError, match="topic orders has no queue 5"):
        client.send("orders", b"x", queue_id=5)


def test_bounds_of_a_topic_take_one_request_and_have_its_epoch(broker: FakeBroker, client: Client) -> None:
    queues = broker.create("orders", 700)
    client.route("orders")
    broker.seen.clear()
    assert len(client.bounds(queues)) == 700
    assert [code for code, _ in broker.seen] == [30000]
    assert client.bounds(queues[:1])[queues[0]].epoch == 1


def test_a_broker_that_does_not_know_our_codes_is_asked_by_its_own_once_it_said_so() -> None:
    with FakeBroker(extended=False) as broker, Client(broker.address, retry_s=2) as client:
        [queue] = broker.create("orders")
        broker.put("orders", b"x", store_ms=7000)
        for _ in range(2):
            assert client.bounds([queue]) == {queue: (0, 1, (0, 7000))}
        assert [code for code, _ in broker.seen] == [105, 30000, 31, 30, 32, 31, 30, 32]


def test_a_queue_that_does_not_exist_has_no_bounds(broker: FakeBroker, client: Client) -> None:
    [queue] = broker.create("orders")
    client.route("orders")
    assert client.bounds([queue, queue._replace(queue_id=9)]).keys() == {queue}
    broker.drop("orders")
    assert client.bounds([queue]) == {}


def test_a_route_names_queues_whose_broker_is_offline(broker: FakeBroker, client: Client) -> None:
    queues = broker.create("orders", 2)
    broker.masterless = True
    route = client.route("orders")
    assert (route.queues, route.offline) == ([], queues)


def test_a_broker_without_a_master_is_asked_for_again(broker: FakeBroker, client: Client) -> None:
    [queue] = broker.create("orders", 1)
    broker.masterless = True
    with pytest.raises(UnreachableError, match="no broker that takes messages"):
        client.send("orders", b"x")
    with pytest.raises(UnreachableError, match="no address"):
        client.bounds([queue])
    broker.masterless = False
    assert client.send("orders", b"x").offset == 0
    assert client.bounds([queue])[queue][:2] == (0, 1)


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b"x", b'{"epoch":"a"}', b'{"epoch":1,"queues":[[1]]}', b'{"epoch":1,"queues":[[0,"a",1]]}']
)
def test_bounds_that_cannot_be_read_are_garbled(broker: FakeBroker, body: bytes) -> None:
    [queue] = broker.create("orders")
    with Liar(encode(0, 1, body=body, flag=1)) as liar, Client(broker.address, retry_s=0) as client:
        client.route("orders").addresses[BROKER] = liar.address
        with pytest.raises(GarbledError, match=r"bounds of orders|not JSON|not a JSON object"):
            client.bounds([queue])
