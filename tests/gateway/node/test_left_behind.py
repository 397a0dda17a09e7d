"""A message that 10,000 others have overtaken, over real sockets: its copy is stored, and only its own group gets it."""

from __future__ import annotations

import asyncio
import struct
import time
from pathlib import Path

from domain import limits
from domain.message import property as properties
from domain.message.record import Record, check
from domain.octets import uint32
from gateway.client.link import Link
from gateway.node.node import Node
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame
from tests.gateway.node.running import served

OVERTAKING = 10_400
BATCH = 2_600


def records(body: bytes) -> list[Record]:
    found: list[Record] = []
    at = 0
    while at < len(body):
        size = uint32(body, at)
        assert check(body[at : at + size])
        found.append(Record(body[at : at + size]))
        at += size
    return found


class Consumer:
    """A client of the remoting protocol that consumes by POP."""

    def __init__(self, node: Node) -> None:
        self.link = Link(f"127.0.0.1:{node.ports['remoting']}", 10)

    def ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> Frame:
        [answer] = self.link.ask([(code, fields, body)])
        return answer

    def send(self, body: bytes, code: int = codes.SEND_V2, stored: str = "") -> int:
        fields = {
            "a": "pg", "b": "c", "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": str(int(time.time() * 1000)), "h": "0",
            "i": stored, "j": "0", "k": "false", "m": "true" if code == codes.SEND_BATCH else "false",
        }  # fmt: skip
        return self.ask(code, fields, body).code

    def pop(self, group: str, topic: str, count: int, invisible_ms: int = 60_000) -> list[Record]:
        fields = {
            "consumerGroup": group, "topic": topic, "queueId": "-1", "maxMsgNums": str(count), "expType": "TAG", "exp": "*",
            "invisibleTime": str(invisible_ms), "pollTime": "0", "bornTime": "0", "initMode": "1", "order": "false",
        }  # fmt: skip
        answer = self.ask(codes.POP, fields)
        assert answer.code in (codes.SUCCESS, codes.POLLING_TIMEOUT), answer.remark
        self.revived = (answer.fields() or {}).get("popTime", "")
        return records(answer.body)

    def acknowledge(self, group: str, offsets: list[int]) -> None:
        asks = [
            (
                codes.ACK,
                {
                    "consumerGroup": group, "topic": "c", "queueId": "0", "offset": str(offset),
                    "extraInfo": f"{offset} {self.revived} 60000 0 0 broker-a 0 {offset}",
                },
                b"",
            )
            for offset in offsets
        ]  # fmt: skip
        assert {answer.code for answer in self.link.ask(asks)} == {codes.SUCCESS}


def overtaken(client: Consumer) -> None:
    """One message of topic `c` is leased and given back; the group `a_b` acknowledges the next 10,400."""
    size = limits.CLIENT_PROPERTIES_BYTES_MAX - len("UNIQ_KEY\x01M\x02p\x01\x02")
    assert client.send(b"secret", stored=f"UNIQ_KEY\x01M\x02p\x01{'v' * size}\x02") == codes.SUCCESS
    assert client.send(b"more", stored=f"p\x01{'v' * (limits.CLIENT_PROPERTIES_BYTES_MAX - 2)}\x02") == codes.MESSAGE_ILLEGAL
    [first] = client.pop("a_b", "c", 1, 12 * 3600 * 1000)
    assert first.body == b"secret"
    held = client.revived
    item = struct.pack(">IIIIIsH", 23, 0, 0, 0, 1, b"n", 0)
    for _ in range(OVERTAKING // BATCH):
        assert client.send(item * BATCH, codes.SEND_BATCH) == codes.SUCCESS
    left = OVERTAKING
    while left:
        offsets = [each.queue_offset for each in client.pop("a_b", "c", 32)]
        assert offsets
        client.acknowledge("a_b", offsets)
        left -= len(offsets)
    change = {
        "consumerGroup": "a_b", "topic": "c", "queueId": "0", "offset": "0", "invisibleTime": "1",
        "extraInfo": f"0 {held} 43200000 0 0 broker-a 0 0",
    }  # fmt: skip
    assert client.ask(codes.CHANGE_INVISIBLE, change).code == codes.SUCCESS
    time.sleep(0.1)


def consumed(node: Node) -> None:
    client = Consumer(node)
    try:
        ensure = {"topic": "b_c", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
        assert client.ask(codes.UPDATE_TOPIC, {**ensure, "topicFilterType": "SINGLE_TAG"}).code == codes.SUCCESS
        overtaken(client)
        found: list[Record] = []
        end = time.monotonic() + 20
        while not found and time.monotonic() < end:
            time.sleep(0.02)
            assert client.pop("a", "b_c", 32) == []
            found = client.pop("a_b", "c", 32)
        assert client.pop("a", "b_c", 32) == []
        [again] = found
        assert (again.body, again.topic, again.reconsume_times) == (b"secret", "c", 1)
        assert len(again.properties) <= limits.PROPERTIES_BYTES_MAX, "Java reads a signed number of 16 bits"
        receipt = properties.text(again.properties, "POP_CK")
        assert receipt.split(" ")[4] == "2", "RocketMQ's ExtraInfoUtil.RETRY_TOPIC_V2"
        ack = {"consumerGroup": "a_b", "topic": "%RETRY%a_b+c", "queueId": "0", "extraInfo": receipt, "offset": "0"}
        assert client.ask(codes.ACK, ack).code == codes.SUCCESS
        assert client.ask(codes.QUERY_OFFSET, {"consumerGroup": "a_b", "topic": "c", "queueId": "0"}).fields() == {
            "offset": str(OVERTAKING + 1)
        }
    finally:
        client.link.close()


def test_a_message_that_is_left_behind_with_all_properties_that_a_client_may_send(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        await asyncio.to_thread(consumed, node)
        await node.stop()

    served(tmp_path, scene, **{"policy.queues": 1})
