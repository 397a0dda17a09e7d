"""A blocking remoting consumer: pulls, receives by POP, settles, sends back, locks queues, commits positions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from domain.message import property as properties
from domain.message.record import Record
from protocols.remoting import codes
from protocols.remoting.wire import frame
from tests.simulation.caller import Caller, records
from tests.simulation.world import World

SUBSCRIPTION = 4
SUSPEND = 2


@dataclass(slots=True)
class Popped:
    """One message received by POP, with the receipt that settles it."""

    record: Record
    receipt: str

    @property
    def body(self) -> str:
        """The body as text."""
        return self.record.body.decode()


class Consumer(Caller):
    """A member of `group` on `topic`. It sends a heartbeat every 30 s, except while `mute` is set or when `joins` is false."""

    def __init__(
        self, world: World, name: str, group: str, topic: str, joins: bool = True, expression: str = "*",
        kind: str = "TAG", model: str = "CLUSTERING", start: str = "CONSUME_FROM_FIRST_OFFSET",
    ) -> None:  # fmt: skip
        self.mute = False
        self.group, self.topic, self.joins = group, topic, joins
        self.expression, self.kind, self.model, self.begins = expression, kind, model, start
        super().__init__(world, name)

    def said_hello(self) -> None:
        if self.joins:
            self.every(30, "beat")

    def beat(self) -> None:
        """Send a heartbeat; without `joins`, one that names no group and only keeps the connection."""
        if self.mute:
            self.post(codes.GET_ALL_GROUPS)
            return
        said = [{"topic": self.topic, "subString": self.expression, "expressionType": self.kind, "subVersion": 1}]
        if self.model == "CLUSTERING":
            said.append({"topic": f"%RETRY%{self.group}", "subString": "*", "expressionType": "TAG", "subVersion": 1})
        member = {
            "groupName": self.group, "consumeType": "CONSUME_PASSIVELY", "messageModel": self.model,
            "consumeFromWhere": self.begins, "subscriptionDataSet": said,
        }  # fmt: skip
        body = {"clientID": self.name, "producerDataSet": [], "consumerDataSet": [member]}
        self.post(codes.HEARTBEAT, {}, json.dumps(body).encode())

    def pull(self, queue: int, offset: int, topic: str = "", wait_ms: int = 0, most: int = 32) -> frame.Frame:
        """Pull once."""
        fields = {
            "consumerGroup": self.group, "topic": topic or self.topic, "queueId": str(queue), "queueOffset": str(offset),
            "maxMsgNums": str(most), "sysFlag": str(SUBSCRIPTION | (SUSPEND if wait_ms else 0)), "commitOffset": "0",
            "suspendTimeoutMillis": str(wait_ms), "subscription": self.expression if not topic else "*", "subVersion": "0",
            "expressionType": self.kind if not topic else "TAG",
        }  # fmt: skip
        return self.call(codes.PULL, fields)

    def drain(self, queue: int, offset: int = 0, topic: str = "") -> list[Record]:
        """Pull until the end of the queue. Returns the records from `offset` on."""
        out: list[Record] = []
        while True:
            found = self.pull(queue, offset, topic)
            if found.code not in (codes.SUCCESS, codes.PULL_RETRY_IMMEDIATELY):
                return out
            out += records(found.body)
            offset = int((found.fields() or {})["nextBeginOffset"])

    def pop(
        self, wait_ms: int = 0, invisible_ms: int = 10_000, most: int = 32, order: bool = False, attempt: str = "",
        queue: int = -1, first: bool = True,
    ) -> list[Popped]:  # fmt: skip
        """Receive by POP."""
        fields = {
            "consumerGroup": self.group, "topic": self.topic, "queueId": str(queue), "maxMsgNums": str(most),
            "invisibleTime": str(invisible_ms), "pollTime": str(wait_ms), "bornTime": str(self.clock.wall_ms()),
            "initMode": "0" if first else "1", "expType": self.kind, "exp": self.expression,
            "order": "true" if order else "false", **({"attemptId": attempt} if attempt else {}),
        }  # fmt: skip
        answer = self.call(codes.POP, fields)
        return popped(answer) if answer.code == 0 else []

    def _about(self, one: Popped) -> dict[str, str]:
        return {
            "consumerGroup": self.group, "topic": self.topic, "queueId": one.receipt.split()[6],
            "offset": one.receipt.split()[7], "extraInfo": one.receipt,
        }  # fmt: skip

    def ack(self, one: Popped) -> int:
        """Settle. Returns the code of the answer."""
        return self.call(codes.ACK, self._about(one)).code

    def change(self, one: Popped, invisible_ms: int) -> int:
        """Change the end of the lease; 0 ends it now. Returns the code of the answer and stores the new receipt in `one`."""
        answer = self.call(codes.CHANGE_INVISIBLE, {**self._about(one), "invisibleTime": str(invisible_ms)})
        told = answer.fields() or {}
        if answer.code == 0:
            parts = one.receipt.split()
            parts[1], parts[2], parts[3] = told["popTime"], told["invisibleTime"], told["reviveQid"]
            one.receipt = " ".join(parts)
        return answer.code

    def give_back(self, record: Record, level: int = 0, most: int = -1) -> int:
        """Send the message back. Returns the code of the answer."""
        fields = {
            "group": self.group, "offset": str(record.physical_offset), "delayLevel": str(level),
            "originMsgId": properties.text(record.properties, "UNIQ_KEY"), "originTopic": record.topic, "unitMode": "false",
            "maxReconsumeTimes": str(most),
        }  # fmt: skip
        return self.call(codes.SEND_BACK, fields).code

    def commit(self, queue: int, offset: int, topic: str = "") -> None:
        """Commit a position and wait for the answer."""
        fields = {"consumerGroup": self.group, "topic": topic or self.topic, "queueId": str(queue), "commitOffset": str(offset)}
        self.done(codes.UPDATE_OFFSET, fields)

    def position(self, queue: int) -> int:
        """The group's position; -1: it has none."""
        fields = {
            "consumerGroup": self.group, "topic": self.topic, "queueId": str(queue), "setZeroIfNotFound": "false",
        }  # fmt: skip
        answer = self.call(codes.QUERY_OFFSET, fields)
        return int((answer.fields() or {})["offset"]) if answer.code == 0 else -1

    def lock(self, queues: Sequence[int]) -> list[int]:
        """Lock queues or renew their locks. Returns the queues that are locked for this consumer."""
        answer = self.call(codes.LOCK_QUEUES, {}, json.dumps(self._queues(queues)).encode())
        return sorted(each["queueId"] for each in json.loads(answer.body)["lockOKMQSet"])

    def unlock(self, queues: Sequence[int]) -> None:
        """Unlock queues."""
        self.done(codes.UNLOCK_QUEUES, {}, self._queues(queues))

    def _queues(self, queues: Sequence[int]) -> dict[str, object]:
        named = [{"brokerName": "broker-a", "topic": self.topic, "queueId": queue} for queue in queues]
        return {"consumerGroup": self.group, "clientId": self.name, "mqSet": named}

    def members(self) -> list[str]:
        """Client ids of the group, sorted."""
        answer = self.call(codes.GET_MEMBERS, {"consumerGroup": self.group})
        return sorted(json.loads(answer.body)["consumerIdList"]) if answer.code == 0 else []

    def notices(self) -> int:
        """Number of notices since the last call that the group's members have changed."""
        count = sum(each.code == codes.MEMBERS_CHANGED for each in self.heard)
        self.heard = [each for each in self.heard if each.code != codes.MEMBERS_CHANGED]
        return count


def popped(answer: frame.Frame) -> list[Popped]:
    """The messages of a POP answer with their receipts, as ExtraInfoUtil computes them."""
    fields = answer.fields() or {}
    starts = dict(part.rsplit(" ", 1) for part in fields["startOffsetInfo"].split(";"))
    out: list[Popped] = []
    for record in records(answer.body):
        receipt = properties.text(record.properties, properties.POP_CK)
        if not receipt:
            receipt = (
                f"{starts[f'0 {record.queue_id}']} {fields['popTime']} {fields['invisibleTime']} {fields['reviveQid']}"
                f" 0 broker-a {record.queue_id} {record.queue_offset}"
            )
        out.append(Popped(record, receipt))
    return out
