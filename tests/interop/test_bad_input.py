"""Invalid input over real sockets is answered or its connection closed within a second; other clients are not affected.

Each probe sends raw bytes to a listener while well-behaved clients of every protocol continue to work.
"""

from __future__ import annotations

import socket
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection

from protocols.remoting.wire import frame
from tests.interop.node import Node

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
CONNECT = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01p"
BOMB = zlib.compress(b"\0" * (64 << 20))


def remoting(header: bytes, kind: int = 0, length: int | None = None, header_length: int | None = None) -> bytes:
    size = 4 + len(header) if length is None else length
    return struct.pack(">II", size, kind << 24 | (len(header) if header_length is None else header_length)) + header


def post(path: str, headers: str, body: bytes = b"x") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: h\r\n{headers}\r\n".encode() + body


PROBES: list[tuple[str, str, bytes]] = [
    ("remoting", "length beyond 16 MiB", struct.pack(">II", 0x7FFFFFFF, 0)),
    ("remoting", "negative length", struct.pack(">II", 0x80000010, 0)),
    ("remoting", "header longer than the frame", remoting(b"{}", header_length=4000)),
    ("remoting", "unknown serialize type", remoting(b"{}", kind=9)),
    ("remoting", "header that is not JSON", remoting(b"[1,2")),
    ("remoting", "header with bad UTF-8", remoting(b'{"code":\xff\xfe}')),
    ("remoting", "binary header with lying ext length", remoting(bytes(17) + b"\x7f\xff\xff\xff" + b"ab", kind=1)),
    ("remoting", "binary header with a negative ext length", remoting(bytes(17) + b"\xff\xff\xff\xff", kind=1)),
    ("remoting", "binary header with a negative remark length", remoting(bytes(13) + b"\xff\xff\xff\xff" + bytes(4), kind=1)),
    ("remoting", "header nested too deep", remoting(b'{"extFields":' * 50_000)),
    ("remoting", "header of arrays nested too deep", remoting(b"[" * 100_000)),
    ("remoting", "a code that is NaN", remoting(b'{"code":NaN,"opaque":1,"flag":0}')),
    ("remoting", "a code with a fraction", remoting(b'{"code":11.5,"opaque":1,"flag":0}')),
    ("remoting", "an opaque beyond 32 bits", remoting(b'{"code":105,"opaque":2147483648,"flag":0}')),
    ("remoting", "an ext field that is an object", remoting(b'{"code":105,"opaque":1,"flag":0,"extFields":{"topic":{}}}')),
    ("remoting", "an MQTT client at the wrong door", CONNECT),
    ("nameserver", "text", b"GET / HTTP/1.1\r\n\r\n"),
    ("mqtt", "HTTP text", b"GET / HTTP/1.1\r\n\r\n"),
    ("mqtt", "bad protocol name", b"\x10\x0d\x00\x04MQTX\x04\x02\x00\x3c\x00\x01p"),
    ("mqtt", "remaining length of five bytes", b"\x10\xff\xff\xff\xff\x7f"),
    ("mqtt", "reserved connect flag", b"\x10\x0d\x00\x04MQTT\x04\x03\x00\x3c\x00\x01p"),
    ("mqtt", "second CONNECT", CONNECT + CONNECT),
    ("mqtt", "reserved packet type", CONNECT + b"\x00\x00"),
    ("mqtt", "SUBSCRIBE with wrong flags", CONNECT + b"\x80\x06\x00\x01\x00\x01a\x00"),
    ("mqtt", "SUBSCRIBE without a filter", CONNECT + b"\x82\x02\x00\x01"),
    ("mqtt", "QoS 3", CONNECT + b"\x36\x05\x00\x01a\x00\x01"),
    ("mqtt", "wildcard in a topic name", CONNECT + b"\x30\x05\x00\x03a/#"),
    ("mqtt", "packet identifier 0", CONNECT + b"\x32\x05\x00\x01a\x00\x00"),
    ("mqtt", "bad UTF-8 in a topic", CONNECT + b"\x30\x05\x00\x02\xc3\x28x"),
    ("mqtt", "U+0000 in a topic", CONNECT + b"\x30\x05\x00\x02a\x00x"),
    ("mqtt", "packet above the maximum", CONNECT + b"\x30\xff\xff\xff\x7f"),
    ("http", "both lengths", post("/ce/t", "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n")),
    ("http", "bad chunk", post("/ce/t", "Transfer-Encoding: chunked\r\n", b"zz\r\n")),
    ("http", "negative length", post("/ce/t", "Content-Length: -5\r\n")),
    ("http", "header block above 16 KiB", b"GET / HTTP/1.1\r\n" + b"a: " + b"b" * 20_000 + b"\r\n\r\n"),
    ("http", "body above the limit", post("/v1/topics/t/messages", "Content-Length: 99999999999\r\n")),
    ("http", "path that climbs", post("/v1/topics/..%2f..%2fetc/messages", "Content-Length: 1\r\n")),
    ("http", "gzip bomb", post("/v1/topics/t/messages", f"Content-Encoding: deflate\r\nContent-Length: {len(BOMB)}\r\n", BOMB)),
    ("http", "binary rubbish", b"\x00\x01\x02\x03\xff\xfe\xfd\xfc" * 8),
    ("http", "half a request at the end of stream", b"POST /ce/t HTTP/1.1\r\nHo"),
    ("grpc", "text", b"GET / HTTP/1.1\r\n\r\n"),
]  # fmt: skip
FRAMES: list[tuple[str, bytes]] = [
    ("a frame above the maximum size", b"\xff\xff\xff\x00\x00\x00\x00\x00\x01"),
    ("DATA on stream 0", b"\x00\x00\x01\x00\x00\x00\x00\x00\x00x"),
    ("HEADERS that are not HPACK", b"\x00\x00\x04\x01\x05\x00\x00\x00\x01\xff\xff\xff\xff"),
    ("SETTINGS of odd size", b"\x00\x00\x05\x04\x00\x00\x00\x00\x00abcde"),
    ("window update of 0", b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
]
PROBES += [(port, what, PREFACE + data) for port in ("grpc", "http") for what, data in FRAMES]


@pytest.fixture(scope="module", params=["", "1"], ids=["default", "pure"])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with the engine of HTTP/2 that is built, and one with the other."""
    with Node(tmp_path_factory.mktemp("bad"), "--durability", "page", environment={"HEADGATE_PURE": request.param}) as running:
        yield running


def healthy(node: Node) -> None:
    """Check that a POST over HTTP and a PINGREQ over MQTT are answered."""
    with socket.create_connection(("127.0.0.1", node.port("http")), timeout=5) as http:
        http.sendall(post("/v1/topics/fine/messages", "Content-Length: 1\r\n"))
        assert http.recv(100).startswith(b"HTTP/1.1 201")
    with socket.create_connection(("127.0.0.1", node.port("mqtt")), timeout=5) as mqtt:
        mqtt.sendall(CONNECT + b"\xc0\x00")
        assert mqtt.recv(100).startswith(b"\x20\x02\x00\x00")


@pytest.mark.parametrize(("port", "what", "data"), PROBES, ids=[f"{port}: {what}" for port, what, _ in PROBES])
def test_what_cannot_become_legal_is_over_at_once(node: Node, port: str, what: str, data: bytes) -> None:
    # An idle connection is closed much later than this socket gives up.
    with socket.create_connection(("127.0.0.1", node.port(port)), timeout=5) as probe:
        probe.sendall(data)
        if "end of stream" in what:
            probe.shutdown(socket.SHUT_WR)
        answered = b""
        try:
            while chunk := probe.recv(65_536):
                answered += chunk
                if answered.startswith(b"HTTP/1.1 4"):
                    break
        except (ConnectionResetError, BrokenPipeError):
            pass
    if port == "http" and answered and not data.startswith(PREFACE):
        assert answered.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5"))


def test_nobody_else_noticed(node: Node) -> None:
    healthy(node)
    metrics = node.admin("/metrics")
    assert "refus" in metrics
    assert "Traceback" not in node.text()


def memory(node: Node) -> list[int]:
    """Resident memory in bytes, of each process of the server."""
    lines = [line for pid in node.pids for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS")]


def growth(node: Node, before: list[int]) -> int:
    """Bytes by which the process of the server has grown that has grown most."""
    return max(now - then for now, then in zip(memory(node), before, strict=True))


def test_who_asks_for_gigabytes_and_reads_nothing_costs_little(node: Node) -> None:
    """2,000 pulls of 4 MiB each, in one write."""
    with socket.create_connection(("127.0.0.1", node.port("http")), timeout=20) as http:
        for _ in range(8):
            http.sendall(post("/v1/topics/large/messages", f"Content-Length: {4 << 20}\r\n", bytes(4 << 20)))
            assert http.recv(4_096).startswith(b"HTTP/1.1 201")
    pulls = b""
    for opaque in range(2_000):
        fields = {
            "consumerGroup": "greedy", "topic": "large", "queueId": str(opaque % 8), "queueOffset": "0", "maxMsgNums": "32",
            "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
            "maxMsgBytes": str(8 << 20),
        }  # fmt: skip
        pulls += frame.encode(11, opaque, fields=fields)
    before = memory(node)
    with socket.create_connection(("127.0.0.1", node.port("remoting")), timeout=20) as greedy:
        greedy.sendall(pulls[: 256 * 1024])
        most = 0
        for _ in range(15):
            time.sleep(0.2)
            most = max(most, growth(node, before))
        assert most < 320 << 20, f"{most >> 20} MiB for one connection"
        healthy(node)
        greedy.settimeout(10)
        assert len(greedy.recv(1 << 20)) > 0, "it is answered all the same"
    healthy(node)


def field(number: int, value: bytes) -> bytes:
    """A field of a protobuf message, shorter than 128 bytes."""
    return bytes([number << 3 | 2, len(value)]) + value


def test_polls_of_grpc_that_are_all_answered_at_once_cost_little(node: Node) -> None:
    """100 groups wait for the first message of a topic on one connection whose flow-control window stays closed."""
    greedy = H2Connection(H2Configuration(client_side=True, header_encoding=None))
    greedy.initiate_connection()
    for at in range(100):
        group, topic = field(2, b"greedy-%d" % at), field(2, b"largest")
        seconds, wanted = b"\x08\x1e", field(3, b"\x08\x01" + field(2, b"large"))
        body = field(1, group) + field(2, field(1, topic)) + wanted + b"\x20\x01" + field(5, seconds) + field(7, seconds)
        path = b"/apache.rocketmq.v2.MessagingService/ReceiveMessage"
        fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"h"), (b":path", path)]
        fields += [(b"content-type", b"application/grpc"), (b"te", b"trailers"), (b"x-mq-client-id", b"greedy")]
        stream = greedy.get_next_available_stream_id()
        greedy.send_headers(stream, fields)
        greedy.send_data(stream, b"\0" + len(body).to_bytes(4, "big") + body, end_stream=True)
    with (
        socket.create_connection(("127.0.0.1", node.port("http")), timeout=20) as http,
        socket.create_connection(("127.0.0.1", node.port("grpc")), timeout=20) as grpc,
    ):
        http.sendall(post("/v1/topics/largest/messages", "mq-tag: none\r\nContent-Length: 1\r\n"))
        assert http.recv(4_096).startswith(b"HTTP/1.1 201")
        grpc.sendall(greedy.data_to_send())
        time.sleep(2)
        before = memory(node)
        http.sendall(post("/v1/topics/largest/messages", f"mq-tag: large\r\nContent-Length: {4 << 20}\r\n", bytes(4 << 20)))
        assert http.recv(4_096).startswith(b"HTTP/1.1 201")
        most = 0
        for _ in range(10):
            time.sleep(0.2)
            most = max(most, growth(node, before))
        assert most < 240 << 20, f"{most >> 20} MiB for one connection"
        http.sendall(post("/v1/groups/greedy-99/topics/largest:receive?max=1&wait_ms=5000", "Content-Length: 0\r\n", b""))
        told = http.recv(65_536)
        assert told.startswith(b"HTTP/1.1 200"), told[:200]
    healthy(node)


def test_datagrams_of_any_kind_leave_the_endpoint_alive(node: Node) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.settimeout(5)
        probe.connect(("127.0.0.1", node.port("coap")))
        for rubbish in (
            b"",
            b"\x40",
            b"\xff" * 40,
            b"\x4f\x01\x00\x01",
            b"\x40\x01\x00\x02\xff",
            b"\x40\x01\x00\x03\xf1\x00",
            b"\x00" * 1500,
        ):
            probe.send(rubbish)
        probe.send(b"\x40\x00\x12\x34")  # an empty CON is a ping, answered by RST with the same message id (RFC 7252, 4.3)
        answers = []
        while b"\x70\x00\x12\x34" not in answers:
            answers.append(probe.recv(2000))
    healthy(node)
    assert 'headgate_dropped_total{protocol="coap",reason="malformed"}' in node.admin("/metrics")
    assert "Traceback" not in node.text()
