"""Mutated requests of remoting and gRPC to a whole node in memory: its use cases and its store are behind them.

    python -m tests.conformance.frames --requests 2000000 --seed 1

Requests are valid when they are made; some get fields that no client sends, some are damaged in their bytes, and they arrive
cut anywhere. Whatever comes: nothing raises; what the node writes can be read; a client beside it is served as ever.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
import time
from typing import Final

from google.protobuf.message import Message as Proto
from h2.config import H2Configuration
from h2.connection import H2Connection

from protocols.grpc.messages import messaging_pb2 as pb
from protocols.remoting import codes
from protocols.remoting.wire.frame import FrameDecoder, encode
from protocols.remoting.wire.header import BINARY, JSON
from tests.simulation.kit.links import Link
from tests.simulation.test_forbidden import GROUP, REQUESTS, TOPIC
from tests.simulation.test_forbidden_grpc import CALLS, consumer
from tests.simulation.tool import Tool
from tests.simulation.world import World

ROUND: Final = 1_000
"""Requests after which a new node is made, so that the stored data does not grow."""
SESSION: Final = 12
ODD: Final = (
    "", "-1", "0", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1e9", "NaN", "0x10", " 1", "\u0661",
    "true", "null", "a\x01b\x02c\x01", "\x00", "%", "%RETRY%", "%RETRY%g", "%DLQ%g", "%LMQ%x", "a b", "../..", "x" * 300,
    "TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "gr\u00f6\u00dfe", "\ud800", "{}", "+a=b", "*", "a||b",
    "0 1 2 3 4 5 6 7", "TAGS\x01a\x02KEYS\x01k\x02", "DELAY\x0199\x02", "TIMER_DELIVER_MS\x0199999999999999\x02",
    "TRAN_MSG\x01true\x02", "INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02", "POP_CK\x010 1 2\x02HG_X\x01y\x02",
)  # fmt: skip
ODD_VALUES: Final[tuple[object, ...]] = (None, -1, 1 << 31, 1 << 63, 1 << 200, 0.5, float("nan"), "1", [], {}, {"a": {}}, True)
ODD_HEADERS: Final = (b"[" * 5_000, b'{"extFields":' * 5_000, b"{}", b"null")
ODD_BODIES: Final = (
    b"", b"{", b"[" * 3_000, b'{"a":' * 3_000, b"null", b"[]", b"{}", b"\xff\xfe", b'{"a":NaN}', b"1" * 400,
    b'{"clientID":1,"consumerDataSet":{}}', b'{"mqSet":[null,1,"x",{}]}', b'{"acks":[{"b":"' + b"A" * 4_000 + b'"}]}',
    bytes.fromhex("7fffffff 00000000 00000000 00000000 7fffffff 78 ffff"), b"\x00" * 64,
)  # fmt: skip


class Wire:
    """The client's end of one connection; it keeps the bytes received."""

    def __init__(self) -> None:
        self.link: Link | None = None
        self.heard = b""
        self.gone = False

    def connected(self, link: Link) -> None:
        self.link = link

    def received(self, data: bytes) -> None:
        self.heard += data

    def lost(self) -> None:
        self.link = None
        self.gone = True


class Alarm(logging.Handler):
    """The log of the gateway: an exception of an adapter or of a use case is written there, and ends the run."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.rung: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.rung.append(logging.Formatter().format(record))


class Author:
    """Makes requests, and mutates them."""

    def __init__(self, pick: random.Random) -> None:
        self.pick = pick
        self._numbers = sorted(REQUESTS)

    def request(self, damaged: bool) -> bytes:
        """A request of remoting, of any code."""
        pick = self.pick
        code = pick.choice(self._numbers)
        known, content = REQUESTS[code]
        fields = dict(known)
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        if damaged and pick.random() < 0.7:
            for _ in range(pick.choice((1, 1, 2, 5))):
                self._odd_field(fields)
            if pick.random() < 0.3:
                body = pick.choice(ODD_BODIES)
        if pick.random() < 0.05:
            code = pick.choice((-1, 0, 1, 39, 40, 220, 326, 3_442, 32_767, 40_000, 65_535, 2_147_483_647))
        serialize = pick.choice((JSON, BINARY)) if -0x8000 <= code <= 0x7FFF else JSON
        flag, opaque = pick.choice((0, 0, 0, 0, 2, 1, 3)), pick.randrange(99)
        if serialize == BINARY:
            fields = {key: value.encode("utf-8", "replace").decode() for key, value in fields.items()}
            data = encode(code, opaque, fields=fields, body=body, flag=flag, serialize=BINARY)
        else:
            data = self._text(code, opaque, fields, body, flag, damaged and pick.random() < 0.1)
        return self.damage(data) if damaged and pick.random() < 0.08 else data

    def _text(self, code: int, opaque: int, fields: dict[str, str], body: bytes, flag: int, odd: bool) -> bytes:
        """A frame whose header is JSON, with values of other types where it is odd."""
        header: dict[str, object] = {"code": code, "opaque": opaque, "flag": flag, "language": "JAVA", "version": 479}
        header["extFields"] = fields
        if odd:
            name = self.pick.choice(list(header))
            header[name] = self.pick.choice(ODD_VALUES)
        text = json.dumps(header).encode()
        if odd and self.pick.random() < 0.3:
            text = self.pick.choice((text[:-1] + b',"code":11}', *ODD_HEADERS, b"\xef\xbb\xbf" + text))
        size = len(text)
        return (4 + size + len(body)).to_bytes(4, "big") + size.to_bytes(4, "big") + text + body

    def _odd_field(self, fields: dict[str, str]) -> None:
        pick = self.pick
        names = [*fields, "topic", "consumerGroup", "queueId", "nsd", "ns"]
        name = pick.choice(names)
        if pick.random() < 0.2:
            fields.pop(name, None)
        else:
            fields[name] = pick.choice(ODD)

    def damage(self, data: bytes) -> bytes:
        """A mutation of `data`."""
        pick = self.pick
        at = pick.randrange(len(data))
        kind = pick.randrange(5)
        if kind == 0:
            return data[:at] + bytes((data[at] ^ 1 << pick.randrange(8),)) + data[at + 1 :]
        if kind == 1:  # a length that lies
            at = pick.choice((0, 4, 25, min(29, len(data) - 4))) if len(data) > 33 else 0
            said = pick.choice((0, 1, 20, 0xFFFF, 0xFFFFFF, 0x7FFFFFFF, 0xFFFFFFFF, len(data)))
            return data[:at] + said.to_bytes(4, "big") + data[at + 4 :]
        if kind == 2:
            return data[:at]
        if kind == 3:
            return data[:at] + pick.randbytes(pick.choice((1, 2, 5, 40))) + data[at:]
        return data[:at] + data[pick.randrange(len(data)) :]

    def call(self, http: H2Connection, damaged: bool) -> None:
        """A call of gRPC, whose message may be damaged."""
        pick = self.pick
        name = pick.choice(list(CALLS))
        message: Proto = CALLS[name]()
        body = message.SerializeToString()
        if damaged and body:
            body = self.damage(body) if pick.random() < 0.7 else pick.choice(ODD_BODIES)
        frame = bytes((pick.choice((0, 0, 0, 0, 1, 9)),)) + len(body).to_bytes(4, "big") + body
        if damaged and pick.random() < 0.2:
            frame = self.damage(frame)
        stream = http.get_next_available_stream_id()
        odd = [text.encode("utf-8", "replace").replace(b"\x00", b"") for text in ODD if "\n" not in text]
        extra = [
            (key, pick.choice(odd).strip())
            for key in (b"x-mq-namespace", b"grpc-timeout", b"authorization", b"x-mq-client-version", b"grpc-encoding")
            if damaged and pick.random() < 0.1
        ]
        path = f"/apache.rocketmq.v2.MessagingService/{name}".encode()
        fields = [
            (b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"f"), (b":path", path),
            (b"content-type", b"application/grpc"), (b"te", b"trailers"), (b"x-mq-client-id", b"client%d" % pick.randrange(3)),
        ]  # fmt: skip
        http.send_headers(stream, fields + extra)
        http.send_data(stream, frame[:16_000], end_stream=pick.random() < 0.9)


class FrameFuzz:
    """A run. `requests` were made, `broken` connections ended by what they sent."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.pick = random.Random(seed)
        self.author = Author(self.pick)
        self.requests = 0
        self.broken = 0
        self.answers = 0

    def round(self, requests: int = ROUND) -> None:
        """Send this many requests to one new node."""
        alarm = Alarm()
        logger = logging.getLogger()
        logger.addHandler(alarm)
        try:
            world = World(self.pick.randrange(1 << 30))
            world.start()
            beside = Beside(world)
            end = self.requests + requests
            while self.requests < end:
                for _ in range(3):
                    self._remoting(world)
                self._grpc(world)
                assert alarm.rung == [], alarm.rung[0]
            beside.check()
            assert alarm.rung == [], alarm.rung[0]
        finally:
            logger.removeHandler(alarm)

    def _remoting(self, world: World) -> None:
        wire = Wire()
        world.dial("remoting", wire)
        assert wire.link is not None
        damaged = self.pick.random() < 0.7
        for _ in range(SESSION):
            if wire.link is not None:
                wire.link.send(self.author.request(damaged))
                self.requests += 1
        self._over(world, wire)
        decoder = FrameDecoder()
        self.answers += len(decoder.feed(wire.heard))
        assert decoder.fault == ""
        assert decoder.held == 0 or wire.gone

    def _grpc(self, world: World) -> None:
        wire = Wire()
        world.dial("http2", wire)
        http = H2Connection(H2Configuration(client_side=True, header_encoding=None, validate_outbound_headers=False))
        http.initiate_connection()
        stream = http.get_next_available_stream_id()
        path = b"/apache.rocketmq.v2.MessagingService/Telemetry"
        http.send_headers(
            stream,
            [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"f"), (b":path", path),
             (b"content-type", b"application/grpc"), (b"te", b"trailers"), (b"x-mq-client-id", b"client1")],
        )  # fmt: skip
        body = pb.TelemetryCommand(settings=consumer().settings).SerializeToString()
        http.send_data(stream, b"\x00" + len(body).to_bytes(4, "big") + body)
        damaged = self.pick.random() < 0.7
        for _ in range(SESSION):
            self.author.call(http, damaged)
            data = http.data_to_send()
            if wire.link is not None:
                wire.link.send(self.author.damage(data) if damaged and self.pick.random() < 0.05 else data)
                self.requests += 1
        self._over(world, wire)

    def _over(self, world: World, wire: Wire) -> None:
        world.clock.run_for(self.pick.choice((20, 200, 1_500)))
        self.broken += wire.gone
        if wire.link is not None:
            wire.link.reset()
        world.clock.run_for(5)


class Beside:
    """A client that sends valid requests only, on topics of its own."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.tool = Tool(world, "beside")
        self.tool.topic(TOPIC, 1)
        self.tool.group(GROUP)
        self.tool.topic("beside", 1)

    def check(self) -> None:
        """Check that its message is stored and can be read."""
        fields = {"a": "p", "b": "beside", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": "", "j": "0"}
        assert self.tool.call(codes.SEND_V2, fields, b"fine").code == 0
        asked = {
            "consumerGroup": "beside", "topic": "beside", "queueId": "0", "queueOffset": "0", "maxMsgNums": "9", "sysFlag": "4",
            "commitOffset": "0", "subscription": "*",
        }  # fmt: skip
        answer = self.tool.call(codes.PULL, asked)
        assert (answer.code, b"fine" in answer.body) == (0, True)


def main() -> None:
    """As long as one has time for."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--requests", type=int, default=100_000)
    options.add_argument("--seconds", type=float, default=1e9)
    options.add_argument("--seed", type=int, default=1)
    wanted = options.parse_args()
    fuzz = FrameFuzz(wanted.seed)
    begun = time.monotonic()
    while fuzz.requests < wanted.requests and time.monotonic() - begun < wanted.seconds:
        fuzz.round()
    print(f"{fuzz.requests} requests, {fuzz.answers} answers, {fuzz.broken} connections ended", file=sys.stderr)


if __name__ == "__main__":
    main()
