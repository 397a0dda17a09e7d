"""A broker that has messages: POP, NOTIFICATION, acknowledgements and changes of the invisible time, under virtual time."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

import orjson

from domain.message import property as properties
from domain.message.message import Message
from domain.message.record import encode
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame
from tests.gateway.apache.scripted_cluster import Reply, ScriptedServer, reply_to

HOST = b"\x0a\x00\x00\x01\x00\x00\x2a\x9f"


@dataclass
class Stored:
    """One message of the broker. `held`: it is leased or settled."""

    queue_id: int
    offset: int
    record: bytes
    tag: str
    retry: int = 0
    held: bool = False


@dataclass
class PopBroker:
    """The messages of one topic at one server.

    ahead_ms                 its wall clock less that of the others
    pops, settled, changed   what it was asked for: ext fields of POPs, (retry, queue, offset) settled, ext fields of changes
    waiting                  NOTIFICATIONs that it holds
    """

    server: ScriptedServer
    topic: str = "T"
    ahead_ms: int = 0
    stored: list[Stored] = field(default_factory=list)
    pops: list[dict[str, str]] = field(default_factory=list)
    settled: list[tuple[int, int, int]] = field(default_factory=list)
    changed: list[dict[str, str]] = field(default_factory=list)
    waiting: list[Frame] = field(default_factory=list)
    notifications: int = 0

    def __post_init__(self) -> None:
        self.server.on(codes.POP, self._pop)
        self.server.on(codes.NOTIFICATION, self._notify)
        self.server.on(codes.ACK, self._ack)
        self.server.on(codes.BATCH_ACK, self._ack_batch)
        self.server.on(codes.CHANGE_INVISIBLE, self._change)

    def put(self, count: int, queue_id: int = 0, tag: str = "", tell: bool = True) -> None:
        """Messages arrive; `tell`: one NOTIFICATION that waits is answered."""
        for _ in range(count):
            offset = sum(each.queue_id == queue_id and not each.retry for each in self.stored)
            self._store(self.topic, queue_id, offset, tag, 0, 0)
        if tell and self.waiting:
            self.notify(self.waiting.pop(0), {"hasMsg": "true", "pollingFull": "false"})

    def put_record(self, record: bytes) -> None:
        """A message arrives in queue 0 as `record`, whose offset is 0."""
        self.stored.append(Stored(0, 0, record, ""))

    def put_again(self, group: str, queue_id: int, offset: int, retry: int = 1) -> None:
        """A message whose lease ended, as a broker gives it: with its receipt, under the topic that was asked for."""
        name = f"%RETRY%{group}{'_' if retry == 1 else '+'}{self.topic}"
        self._store(self.topic, queue_id, offset, "", retry, 1, name)

    def _store(self, topic: str, queue_id: int, offset: int, tag: str, retry: int, times: int, name: str = "") -> None:
        stored = properties.encode([("UNIQ_KEY", f"{self.server.name}-{queue_id}-{offset}"), *([("TAGS", tag)] if tag else [])])
        if retry:
            stored += properties.entry(
                "POP_CK", f"{offset} {self.server.clock.wall_ms()} 60000 3 {retry} {self.server.name} {queue_id} {offset}"
            )
        message = Message(topic, b"body", stored, queue_id=queue_id, reconsume_times=times)
        at = 1_000 + 100 * len(self.stored)
        self.stored.append(Stored(queue_id, offset, encode(message, offset, at, 1, HOST), tag, retry))

    def notify(self, frame: Frame, fields: dict[str, str]) -> None:
        """Answer a request that was held."""
        self.server.connections[-1].notify(reply_to(frame, codes.SUCCESS, fields))

    def _pop(self, frame: Frame) -> Reply:
        fields = frame.fields() or {}
        self.pops.append(fields)
        queue_id = int(fields["queueId"])
        free = [each for each in self.stored if not each.held and queue_id in (-1, each.queue_id)]
        if fields.get("expType") == "TAG" and fields["exp"] != "*":
            free = [each for each in free if each.tag in fields["exp"].split("||")]
        given = free[: int(fields["maxMsgNums"])]
        told = {
            "popTime": str(self.server.clock.wall_ms() + self.ahead_ms), "invisibleTime": fields["invisibleTime"],
            "reviveQid": "999" if fields["order"] == "true" else "3", "restNum": str(len(free) - len(given)),
        }  # fmt: skip
        if not given:
            return codes.POLLING_TIMEOUT, told, b""
        starts: dict[tuple[int, int], list[int]] = {}
        for each in given:
            each.held = True
            starts.setdefault((each.retry, each.queue_id), []).append(each.offset)
        told["startOffsetInfo"] = ";".join(f"{retry} {queue} {offsets[0]}" for (retry, queue), offsets in starts.items())
        told["msgOffsetInfo"] = ";".join(
            f"{retry} {queue} {','.join(map(str, offsets))}" for (retry, queue), offsets in starts.items()
        )
        return codes.SUCCESS, told, b"".join(each.record for each in given)

    def _notify(self, frame: Frame) -> Reply:
        self.notifications += 1
        if any(not each.held for each in self.stored):
            return codes.SUCCESS, {"hasMsg": "true", "pollingFull": "false"}, b""
        self.waiting.append(frame)
        poll_ns = int((frame.fields() or {})["pollTime"]) * 1_000_000
        self.server.clock.call_at(self.server.clock.monotonic_ns() + poll_ns, lambda: self._give_up(frame))
        return None

    def _give_up(self, frame: Frame) -> None:
        if frame in self.waiting:
            self.waiting.remove(frame)
            if self.server.up and not self.server.silent:
                self.notify(frame, {"hasMsg": "false", "pollingFull": "false"})

    def _ack(self, frame: Frame) -> Reply:
        fields = frame.fields() or {}
        retry = int(fields["extraInfo"].split(" ")[4])
        self.settled.append((retry, int(fields["queueId"]), int(fields["offset"])))
        return codes.SUCCESS, {"a": "b"}, b""

    def _ack_batch(self, frame: Frame) -> Reply:
        for each in orjson.loads(frame.body)["acks"]:
            bits = int.from_bytes(base64.b64decode(each["b"]), "little")
            self.settled += [
                (int(each["r"]), each["q"], each["so"] + at) for at in range(bits.bit_length()) if bits >> at & 1
            ]  # fmt: skip
        return codes.SUCCESS, {"a": "b"}, b""

    def _change(self, frame: Frame) -> Reply:
        fields = frame.fields() or {}
        self.changed.append(fields)
        told = {
            "popTime": str(self.server.clock.wall_ms() + self.ahead_ms),
            "invisibleTime": fields["invisibleTime"],
            "reviveQid": "5",
        }
        return codes.SUCCESS, told, b""
