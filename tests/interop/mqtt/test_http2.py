"""MQTT over WebSocket over HTTP/2 (RFC 8441) with a real node: a client of hyper-h2 and wsproto, in the clear and in TLS."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RemoteSettingsChanged, ResponseReceived
from wsproto.connection import Connection as Frames
from wsproto.connection import ConnectionType
from wsproto.events import BytesMessage

from tests.interop.node import Node

CONNECT = bytes.fromhex("100d00044d515454040200000001") + b"%c"
SUBSCRIBE = b"\x82\x08\x00\x01\x00\x03h/#\x01"
PUBLISH = b"\x32\x09\x00\x03h/x\x00\x07hi"
CONNACK, SUBACK, PUBACK = b"\x20\x02\x00\x00", b"\x90\x03\x00\x01\x01", b"\x40\x02\x00\x07"


class Browser:
    """One HTTP/2 connection with WebSockets on its streams."""

    def __init__(self, port: int, secure: bool) -> None:
        plain = socket.create_connection(("127.0.0.1", port), 10)
        if secure:
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            context.set_alpn_protocols(["h2"])
            plain = context.wrap_socket(plain)
            assert plain.selected_alpn_protocol() == "h2"
        self.socket = plain
        self.connection = H2Connection(H2Configuration(header_encoding="utf-8"))
        self.connection.initiate_connection()
        self.frames: dict[int, Frames] = {}
        self.heard: dict[int, bytes] = {}
        self.status: dict[int, str] = {}
        self.settled = False
        self.wait(lambda: self.settled)

    def wait(self, ready: object) -> None:
        while True:
            self.socket.sendall(self.connection.data_to_send())
            if ready():  # type: ignore[operator]
                return
            for event in self.connection.receive_data(self.socket.recv(65_536)):
                if isinstance(event, RemoteSettingsChanged):
                    self.settled = True
                elif isinstance(event, ResponseReceived):
                    self.status[event.stream_id] = str(dict(event.headers)[":status"])  # type: ignore[index]
                elif isinstance(event, DataReceived):
                    frames = self.frames[event.stream_id]
                    frames.receive_data(event.data)
                    self.heard[event.stream_id] += b"".join(
                        bytes(one.data) for one in frames.events() if isinstance(one, BytesMessage)
                    )

    def open(self) -> int:
        stream_id = self.connection.get_next_available_stream_id()
        headers = [
            (":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"), (":path", "/mqtt"), (":authority", "x"),
            ("sec-websocket-protocol", "mqtt"), ("sec-websocket-version", "13"),
        ]  # fmt: skip
        self.connection.send_headers(stream_id, headers)
        self.frames[stream_id] = Frames(ConnectionType.CLIENT)
        self.heard[stream_id] = b""
        self.wait(lambda: stream_id in self.status)
        assert self.status[stream_id] == "200"
        return stream_id

    def talk(self, stream_id: int, data: bytes, answer: bytes) -> None:
        self.connection.send_data(stream_id, self.frames[stream_id].send(BytesMessage(data)))
        self.wait(lambda: self.heard[stream_id].startswith(answer))
        self.heard[stream_id] = self.heard[stream_id][len(answer) :]


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("admin", [False, True])
def test_two_clients_share_a_connection(tmp_path: Path, secure: bool, admin: bool) -> None:
    config = tmp_path / "open.toml"
    config.write_text('[access]\nenabled = true\nanonymous = "root"\n' if admin else "")
    with Node(tmp_path, "--durability", "page", "--config", str(config), *(("--admin", "root:x") if admin else ())) as node:
        browser = Browser(node.port("http"), secure)
        listener, sender = browser.open(), browser.open()
        browser.talk(listener, CONNECT % b"l", CONNACK)
        browser.talk(sender, CONNECT % b"s", CONNACK)
        browser.talk(listener, SUBSCRIBE, SUBACK)
        browser.talk(sender, PUBLISH, PUBACK)
        browser.wait(lambda: browser.heard[listener].endswith(b"hi"))
        browser.socket.close()
