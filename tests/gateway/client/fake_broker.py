"""A name server and broker in memory on a free port, with the remoting codec. It has only what the client needs."""

from __future__ import annotations

import json
import socket
import socketserver
import ssl
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from domain.message import property as properties
from domain.message import record
from domain.message.message import Message
from gateway.client.answer import QueueRoute
from gateway.client.security import AccessKey
from protocols.remoting.wire.frame import Frame, FrameDecoder, encode

BROKER = "broker-a"
HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"


class FakeBroker:
    """Topics with queues of records. Tests change its attributes between calls, or during a call.

    first         (topic, queue id) -> offset of the first stored message
    answers       request code -> (response code, remark) of the next replies, one for each element of the list
    hang_up       number of next requests whose connection is closed without a reply
    silent        True: no request is answered
    pull_max      most messages of one pull reply
    search_misses reply to a search that finds no message; None: the offset of the next message
    epochs        topic -> its epoch, as a Headgate node tells it; None: a broker that knows RocketMQ's requests only
    held          (name, topic) -> offsets of read holds
    masterless    True: routes have no master of the broker
    followers     number -> address of the slaves in routes
    hidden        (topic, queue id) of queues whose pulls end before the queue does
    secure        TLS of the server; None: no TLS
    keys          access keys of the users, of which each request has to be signed by one; (): requests are not checked
    connections   number of connections so far whose TLS handshake succeeded
    drops         number of next connections that are closed before anything is read
    banner        what a client is told before anything is read
    """

    def __init__(self, port: int = 0, *, extended: bool = True) -> None:
        self.epochs: dict[str, int] | None = {} if extended else None
        self.masterless = False
        self.followers: dict[str, str] = {}
        self.held: dict[tuple[str, str], dict[int, int]] = {}
        self.hidden: dict[tuple[str, int], int] = {}
        self.secure: ssl.SSLContext | None = None
        self.keys: tuple[AccessKey, ...] = ()
        self.connections = 0
        self.drops = 0
        self.banner = b""
        self.queues: dict[tuple[str, int], list[bytes]] = {}
        self.first: dict[tuple[str, int], int] = {}
        self.answers: dict[int, list[tuple[int, str]]] = {}
        self.hang_up = 0
        self.silent = False
        self.pull_max = 1000
        self.search_misses: int | None = None
        self.seen: list[tuple[int, dict[str, str]]] = []
        self._port = port
        self._server: socketserver.ThreadingTCPServer | None = None
        self._open: set[socket.socket] = set()

    def __enter__(self) -> FakeBroker:
        broker = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                broker._serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

        self._server = Server(("127.0.0.1", self._port), Handler)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None = None, error: BaseException | None = None, trace: TracebackType | None = None
    ) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()
        for one in list(self._open):
            one.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def create(self, topic: str, queues: int = 1) -> list[QueueRoute]:
        for number in range(queues):
            self.queues.setdefault((topic, number), [])
            self.first.setdefault((topic, number), 0)
        return [QueueRoute(BROKER, topic, number) for number in range(queues)]

    def put(self, topic: str, body: bytes, queue_id: int = 0, store_ms: int = 1_700_000_000_000, **more: Any) -> int:
        """Append one message. Returns its offset. `more`: fields of Message, with `properties` as a mapping or as bytes."""
        stored = self.queues[topic, queue_id]
        offset = self.first[topic, queue_id] + len(stored)
        given = more.pop("properties", {"UNIQ_KEY": f"ID-{topic}-{queue_id}-{offset}"})
        packed = properties.encode(given.items()) if isinstance(given, Mapping) else given
        message = Message(topic, body, packed, queue_id=queue_id, **({"born_ms": store_ms - 5} | more))
        stored.append(record.encode(message, offset, 1_000 * offset, store_ms, HOST))
        return offset

    def drop(self, topic: str) -> None:
        """Delete a topic."""
        for key in [key for key in self.queues if key[0] == topic]:
            del self.queues[key], self.first[key]
        if self.epochs is not None:
            self.epochs[topic] = self.epochs.get(topic, 1) + 1

    def expire(self, topic: str, queue_id: int, count: int) -> None:
        """Delete the oldest `count` messages, as retention does."""
        del self.queues[topic, queue_id][:count]
        self.first[topic, queue_id] += count

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._open.add(connection)
        decoder = FrameDecoder()
        try:
            if self.drops > 0:
                self.drops -= 1
                return
            connection.sendall(self.banner)
            if self.secure is not None:
                connection = self.secure.wrap_socket(connection, server_side=True)
                self._open.add(connection)
            self.connections += 1
            while data := connection.recv(65536):
                for frame in decoder.feed(data):
                    if self.hang_up > 0:
                        self.hang_up -= 1
                        return
                    if not self.silent:
                        connection.sendall(self._answer(frame))
        except OSError:
            pass
        finally:
            self._open.discard(connection)
            connection.close()

    def _answer(self, frame: Frame) -> bytes:
        fields = frame.fields() or {}
        self.seen.append((frame.code, fields))
        if self.answers.get(frame.code):
            code, remark = self.answers[frame.code].pop(0)
            return reply(frame, code, remark=remark)
        unsigned = {name: value for name, value in fields.items() if name not in ("AccessKey", "SecurityToken", "Signature")}
        if self.keys and fields not in [key.signed(unsigned, frame.body) for key in self.keys]:
            return reply(frame, 16, remark="check signature failed." if "AccessKey" in fields else "username cannot be null.")
        topic = fields.get("topic", fields.get("b", ""))
        if frame.code == 105:
            return self._route(frame, topic)
        if frame.code == 206:
            names = sorted({topic for topic, _ in self.queues})
            return reply(frame, 0, body=json.dumps({"topicList": names}).encode())
        if frame.code == 310:
            return self._send(frame, fields)
        if frame.code == 30000 and self.epochs is not None:
            return self._bounds(frame, topic)
        if frame.code == 30001 and self.epochs is not None:
            self.held[fields["hold"], topic] = dict(json.loads(frame.body))
            return reply(frame, 0)
        if frame.code >= 30000:
            return reply(frame, 3, remark=f"request type {frame.code} not supported")
        key = (topic, int(fields["queueId"]))
        if key not in self.queues:
            return reply(frame, 17, remark="no such topic")
        first, after = self.first[key], self.first[key] + len(self.queues[key])
        if (
            frame.code == 11
            and self.epochs is not None
            and fields.get("hgEpoch", "-1") not in ("-1", str(self.epochs.get(topic, 1)))
        ):
            return reply(frame, 17, remark="the topic has another epoch")
        if frame.code == 11:
            return self._pull(frame, fields, key, first, self.hidden.get(key, after))
        if frame.code == 32:
            oldest = [data for data in self.queues[key] if data][:1]
            time_ms = record.Record(oldest[0]).store_ms if oldest else -1
            return reply(frame, 0, {"timestamp": str(time_ms)})
        if frame.code == 29:
            late = [at for at, data in enumerate(self.queues[key]) if record.Record(data).store_ms >= int(fields["timestamp"])]
            return reply(
                frame,
                0,
                {"offset": str(first + late[0] if late else after if self.search_misses is None else self.search_misses)},
            )
        return reply(frame, 0, {"offset": str({30: after, 31: first}[frame.code])})

    def _route(self, frame: Frame, topic: str) -> bytes:
        count = len([1 for name, _ in self.queues if name == topic])
        if not count:
            return reply(frame, 17, remark=f"No topic route info in name server for the topic: {topic}")
        queue = {"brokerName": BROKER, "perm": 6, "readQueueNums": count, "writeQueueNums": count, "topicSysFlag": 0}
        addresses = {"1" if self.masterless else "0": self.address, **self.followers}
        broker = {"brokerAddrs": addresses, "brokerName": BROKER, "cluster": "DefaultCluster"}
        return reply(frame, 0, body=json.dumps({"brokerDatas": [broker], "queueDatas": [queue]}).encode())

    def _bounds(self, frame: Frame, topic: str) -> bytes:
        assert self.epochs is not None
        queues = [[number, self.first[name, number], self.first[name, number] + len(held)]
                  for (name, number), held in self.queues.items() if name == topic]  # fmt: skip
        if not queues:
            return reply(frame, 17, remark=f"topic {topic} does not exist")
        return reply(frame, 0, body=json.dumps({"epoch": self.epochs.get(topic, 1), "queues": queues}).encode())

    def _pull(self, frame: Frame, fields: dict[str, str], key: tuple[str, int], first: int, after: int) -> bytes:
        offset = int(fields["queueOffset"])
        limit = min(int(fields["maxMsgNums"]), self.pull_max)
        found = self.queues[key][max(offset - first, 0) : max(after - first, 0)][:limit]
        code = 21 if offset < first or offset > after else 0 if found else 19
        next_offset = {21: first if offset < first else after, 0: offset + len(found), 19: offset}[code]
        numbers = {"nextBeginOffset": next_offset, "minOffset": first, "maxOffset": after, "suggestWhichBrokerId": 0}
        fields = {name: str(number) for name, number in numbers.items()}
        return reply(frame, code, fields, b"".join(found) if code == 0 else b"")

    def _send(self, frame: Frame, fields: dict[str, str]) -> bytes:
        self.create(fields["b"], int(fields["e"]) + 1)
        pairs = properties.decode(fields.get("i", "").encode()) | {"UNIQ_KEY": "MINTED"}
        offset = self.put(fields["b"], frame.body, int(fields["e"]), properties=pairs)
        places = {"msgId": "OFFSETID", "transactionId": "MINTED", "queueId": fields["e"], "queueOffset": str(offset)}
        return reply(frame, 0, places)


class Liar:
    """A server that answers every connection with the same bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
                connection.recv(65536)
                connection.sendall(self._data)
            except OSError:
                return

    def __enter__(self) -> Liar:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()


def reply(request: Frame, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"", remark: str = "") -> bytes:
    """The reply to `request`, in its header encoding."""
    return encode(code, request.opaque, fields=fields or {}, body=body, flag=1, remark=remark, serialize=request.serialize)


def frame_of(code: int, **fields: str) -> bytes:
    """A reply with the opaque of a client's first request."""
    return encode(code, 1, fields=fields, flag=1)
