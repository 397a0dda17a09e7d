"""Real replicas that follow serve readers: their backlog, never more than is confirmed, and they say who has the rest."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from domain.message.record import Record
from gateway.client.answer import ClientError
from gateway.client.client import Client
from gateway.client.link import Link
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame
from tests.interop.controller.controllers import WAIT_S, until
from tests.interop.node import Node
from tests.interop.remoting.java import JavaClient
from tests.interop.replication.group import StoreGroupNodes

pytestmark = pytest.mark.interop

TOPIC: Final = "backlog"
OTHER: Final = "other"
BODY_BYTES: Final = 20_000
COUNT: Final = 200
ATTEMPTS: Final = 4


class Reader:
    """Pulls one queue over one connection, and notes whom it is told to ask next."""

    def __init__(self, address: str) -> None:
        self.link = Link(address, 20)
        self.next_reader = 0

    def ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> Frame:
        (reply,) = self.link.ask([(code, fields, body)])
        return reply

    def pull(self, offset: int, most: int = 32, queue: int = 0) -> Frame:
        """One pull of a queue by a reader beside any group."""
        fields = {
            "consumerGroup": "readers", "topic": TOPIC, "queueId": str(queue), "queueOffset": str(offset),
            "maxMsgNums": str(most), "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*",
            "subVersion": "0",
        }  # fmt: skip
        reply = self.ask(codes.PULL, fields)
        self.next_reader = int((reply.fields() or {}).get("suggestWhichBrokerId", "0"))
        return reply

    def end(self) -> int:
        """The end of queue 0."""
        return int((self.ask(codes.GET_MAX_OFFSET, {"topic": TOPIC, "queueId": "0"}).fields() or {})["offset"])


def records(body: bytes) -> Iterator[Record]:
    """The records of a reply to a pull."""
    at = 0
    while at < len(body):
        size = int.from_bytes(body[at : at + 4], "big")
        yield Record(body[at : at + size])
        at += size


def address(node: Node, port: str) -> str:
    """host:port of one listener."""
    return f"127.0.0.1:{node.port(port)}"


def read(node: Node) -> int:
    """Messages that a follower has given to readers, as brokerStatus shows it."""
    table = json.loads(Reader(address(node, "readers")).ask(codes.GET_RUNTIME_INFO, {}).body)["table"]
    return int(table["msgGetTotalTodayNow"])


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreGroupNodes]:
    """Two replicas, of which the follower serves readers that are 1 MiB behind."""
    offload = {"HEADGATE_REPLICATION_OFFLOAD_MIB": "1"}
    with StoreGroupNodes(tmp_path_factory.mktemp("pair"), 2, environment=offload) as group:
        group.await_members(1, 2)
        yield group


def test_a_backlog_is_read_from_a_follower(java: JavaClient, pair: StoreGroupNodes) -> None:
    leader = pair.leader()
    follower = next(node for node in pair.nodes if node is not leader)
    names = address(leader, "nameserver")
    with Client(names) as client:
        for number in range(COUNT):
            client.send(TOPIC, b"%d " % number + b"x" * BODY_BYTES, queue_id=0)
        slaves = slaves_of(names)
        assert list(slaves.values()) == [address(follower, "readers")]
        (number_of_follower,) = slaves
        at_leader = Reader(address(leader, "remoting"))
        at_leader.pull(0)
        assert at_leader.next_reader == number_of_follower
        at_leader.pull(COUNT - 1)
        assert at_leader.next_reader == 0, "what is near the end is in the leader's memory"

        reader = Reader(address(follower, "readers"))
        until(lambda: reader.end() == COUNT, "the follower has all of it")
        found: list[bytes] = []
        stays = leaves = 0
        while len(found) < COUNT:
            reply = reader.pull(len(found))
            assert reply.code == codes.SUCCESS
            found += [each.body for each in records(reply.body)]
            stays += reader.next_reader == number_of_follower
            leaves += reader.next_reader == 0
        assert [int(each.split()[0]) for each in found] == list(range(COUNT))
        assert stays
        assert leaves, "near the end the leader is asked"

        beyond = reader.pull(COUNT)
        assert (beyond.code, reader.next_reader) == (codes.PULL_RETRY_IMMEDIATELY, 0)
        assert (beyond.fields() or {})["nextBeginOffset"] == str(COUNT)
        far = reader.pull(COUNT + 1_000)
        assert (far.code, (far.fields() or {})["nextBeginOffset"]) == (codes.PULL_RETRY_IMMEDIATELY, str(COUNT + 1_000))

        before = read(follower)
        words = ("printMsgByQueue", "-t", TOPIC, "-a", "broker-a", "-i", "0", "-p", "true", "-n", names)
        until(lambda: java.admin(*words).count("MSGID") == COUNT, "the Java client reads all of it")
        assert read(follower) > before, "the Java client reads its backlog from the follower"


def slaves_of(names: str) -> dict[int, str]:
    """The replicas that the route of the topic lists beside the leader."""
    reply = Reader(names).ask(codes.GET_ROUTE, {"topic": TOPIC, "acceptStandardJsonOnly": "true"})
    (broker,) = json.loads(reply.body)["brokerDatas"]
    return {int(each): where for each, where in broker["brokerAddrs"].items() if each != "0"}


def test_a_follower_refuses_what_only_a_leader_does(pair: StoreGroupNodes) -> None:
    pair.await_members(1, 2)
    pair.send(OTHER, "one")
    follower = next(node for node in pair.nodes if node is not pair.leader())
    reader = Reader(address(follower, "readers"))
    place = {"topic": OTHER, "queueId": "0"}
    send = {
        **place, "producerGroup": "p", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "sysFlag": "0",
        "bornTimestamp": "1", "flag": "0", "properties": "", "reconsumeTimes": "0", "unitMode": "false", "batch": "false",
    }  # fmt: skip
    refused = [
        reader.ask(codes.SEND, send, b"two"),
        reader.ask(codes.QUERY_OFFSET, {**place, "consumerGroup": "g"}),
        reader.ask(codes.UPDATE_OFFSET, {**place, "consumerGroup": "g", "commitOffset": "1"}),
        reader.ask(codes.DELETE_TOPIC, {"topic": OTHER}),
    ]
    assert [each.code for each in refused] == [codes.SERVICE_NOT_AVAILABLE] * len(refused)
    assert all("ask the leader" in each.remark for each in refused)
    beat = json.dumps({"clientID": "c", "producerDataSet": [], "consumerDataSet": []}).encode()
    assert reader.ask(codes.HEARTBEAT, {}, beat).code == codes.SUCCESS
    assert pair.bodies(OTHER) == ["one"]
    pair.kill(pair.leader())
    until(follower.serves, "the follower leads")
    with pytest.raises(ConnectionError, match="cannot connect"):
        Link(address(follower, "readers"), 5)
    assert pair.bodies(OTHER) == ["one"]


def test_a_follower_shows_nothing_that_a_member_lacks(tmp_path: Path) -> None:
    """One of three members stands still: what the other two have is not confirmed until it is left out."""
    with StoreGroupNodes(tmp_path, 3) as group:
        for _ in range(ATTEMPTS):
            group.await_members(1, 2, 3)
            try:
                shown = _scene(group)
            except (OSError, ClientError):
                continue  # on a busy machine another replica was elected meanwhile
            assert shown.count(shown[0]) > 1, "it was not shown at once"
            return
        raise AssertionError(f"another replica was elected in each of {ATTEMPTS} scenes")


def _scene(group: StoreGroupNodes) -> list[tuple[int, int]]:
    """What the follower and the leader show as the end of the queue, again and again, until both show one more message."""
    leader = group.leader()
    still, follower = [node for node in group.nodes if node is not leader]
    at_leader, at_follower = Reader(address(leader, "remoting")), Reader(address(follower, "readers"))
    with Client(address(leader, "nameserver")) as client:
        client.send(TOPIC, b"before", queue_id=0)
    begin = at_leader.end()
    until(lambda: at_follower.end() == begin, "the follower has it")
    still.signal(signal.SIGSTOP)
    late = threading.Thread(target=_send_late, args=(address(leader, "nameserver"),))
    late.start()
    try:
        ends: list[tuple[int, int]] = []
        limit = time.monotonic() + WAIT_S
        while not ends or ends[-1] != (begin + 1, begin + 1):
            assert time.monotonic() < limit, ends[-1]
            shown = at_follower.end()  # asked first: the leader may only be further by now
            ends.append((shown, at_leader.end()))
            assert shown <= ends[-1][1]
            if ends[-1] == (begin, begin):
                reply = at_follower.pull(begin)  # asked again and again, it is refused
                elsewhere = reply.code in (codes.PULL_RETRY_IMMEDIATELY, codes.SERVICE_NOT_AVAILABLE)
                assert elsewhere or at_leader.end() > begin
            time.sleep(0.05)
        return ends
    finally:
        still.signal(signal.SIGCONT)
        late.join()


def _send_late(names: str) -> None:
    """Send a message that is acknowledged late, or never."""
    with suppress(OSError, ClientError), Client(names, timeout_s=30) as client:
        client.send(TOPIC, b"late", queue_id=0)
