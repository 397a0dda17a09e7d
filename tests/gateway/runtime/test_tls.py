"""TLS around a connection, in memory: a real client context against the server's end."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest

from domain import limits
from domain.command import Disconnected
from domain.errors import ConfigError
from domain.event import Done
from gateway.runtime.security.certificate import self_signed
from gateway.runtime.security.tls_hello import RECORDS_MAX
from gateway.runtime.tls import HANDSHAKE_BYTES, TlsConnection, TlsContexts
from protocols.adapter import Peer
from protocols.registry import Opening
from tests.gateway.scripted import ScriptedConnection
from tests.protocols.test_registry import HTTP1, HTTP2, MQTT, RECOGNISER

PEER = Peer("127.0.0.1", 1, b"\x7f\x00\x00\x01\x00\x00\x00\x01")
CONNECT = b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04abcd"


class Recorder:
    """An adapter that connects to scripted connections."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.peers: list[Peer] = []
        self.connection = ScriptedConnection()

    def connect(self, peer: Peer, now: int) -> ScriptedConnection:
        self.peers.append(peer)
        return self.connection


class Client:
    """The other end, in memory."""

    def __init__(self, folder: Path, alpn: list[str], hostname: str = "localhost") -> None:
        context = ssl.create_default_context(cafile=str(folder / "tls" / "certificate.pem"))
        if alpn:
            context.set_alpn_protocols(alpn)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=hostname)

    def handshake(self, server: TlsConnection) -> None:
        for _ in range(10):
            try:
                self.tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                self.exchange(server)
        raise AssertionError("no handshake")

    def exchange(self, server: TlsConnection) -> list[object]:
        data = self.outgoing.read()
        commands: list[object] = list(server.receive(data, 1)) if data else []
        for part in server.outgoing():
            self.incoming.write(part)
        return commands


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "tls").mkdir()
    self_signed(folder / "tls" / "certificate.pem", folder / "tls" / "key.pem", ["localhost", "127.0.0.1", "localhost"])
    return folder


def server_of(folder: Path, *adapters: Recorder) -> TlsConnection:
    return TlsContexts(RECOGNISER, "", "", folder, ()).secure({adapter.name: adapter for adapter in adapters})(PEER, 0)


def connected(
    folder: Path, *adapters: Recorder, alpn: Sequence[str] = (), hostname: str = "localhost"
) -> tuple[TlsConnection, Client]:
    """The two ends after the handshake."""
    server, client = server_of(folder, *adapters), Client(folder, [*alpn], hostname)
    client.handshake(server)
    return server, client


def spoken(folder: Path, adapter: Recorder) -> tuple[TlsConnection, Client]:
    """The two ends after the first packet."""
    server, client = connected(folder, adapter)
    client.tls.write(CONNECT)
    client.exchange(server)
    return server, client


@pytest.mark.parametrize("hostname", ["localhost", "127.0.0.1"])
def test_protocol_inside_is_recognised_and_answered(folder: Path, hostname: str) -> None:
    mqtt = Recorder(MQTT)
    server, client = connected(folder, mqtt, Recorder(HTTP1), hostname=hostname)
    client.tls.write(CONNECT)
    client.exchange(server)
    assert mqtt.connection.received == [CONNECT]
    assert mqtt.peers[0].tls
    assert server.protocol == MQTT
    server.answer(Done(1), 2)
    client.exchange(server)
    assert client.tls.read(100) == b"answer"


def test_alpn_decides_who_may_speak(folder: Path) -> None:
    http2, mqtt = Recorder(HTTP2), Recorder(MQTT)
    server, client = connected(folder, http2, mqtt, alpn=["h2"])
    assert client.tls.selected_alpn_protocol() == "h2"
    client.tls.write(CONNECT)
    assert client.exchange(server) == [Disconnected("unrecognised")]
    assert mqtt.connection.received == []
    assert server.closed


def test_plain_bytes_split_anywhere_arrive_in_order(folder: Path) -> None:
    mqtt = Recorder(MQTT)
    server, client = connected(folder, mqtt, alpn=["mqtt"])
    client.tls.write(CONNECT)
    client.tls.write(b"x" * 40_000)
    data = client.outgoing.read()
    for at in range(0, len(data), 777):
        server.receive(data[at : at + 777], 1)
    assert b"".join(mqtt.connection.received) == CONNECT + b"x" * 40_000


def test_close_notify_is_end_of_stream_and_the_goodbye_follows(folder: Path) -> None:
    mqtt = Recorder(MQTT)
    server, client = spoken(folder, mqtt)
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.unwrap()
    mqtt.connection.closed = True
    mqtt.connection.queue.append(b"goodbye")
    assert client.exchange(server) == []
    assert client.tls.read(100) == b"goodbye"
    client.tls.unwrap()


@pytest.mark.parametrize("data", [b"", b"\x17\x03\x03\x00\x10" + b"y" * 16], ids=["end", "broken record"])
def test_end_of_stream_and_a_broken_record_end_the_stream_inside(folder: Path, data: bytes) -> None:
    server, _ = spoken(folder, Recorder(MQTT))
    assert server.receive(data, 2) == [Disconnected("eof")]


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x00\x05hello", b"\x16\x03\x01\xff\xff" + b"x" * 200, b"GET / HTTP/1.1\r\n"])
def test_broken_handshake_is_closed(folder: Path, data: bytes) -> None:
    server = server_of(folder, Recorder(MQTT))
    assert server.receive(data, 1) == (Disconnected("tls-handshake"),)
    assert server.closed
    assert server.receive(b"more", 2) == ()


def hello_of(folder: Path) -> bytes:
    """A ClientHello."""
    client = Client(folder, [])
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.do_handshake()
    return client.outgoing.read()


def test_openssl_is_begun_with_the_whole_hello_only(folder: Path) -> None:
    hello = hello_of(folder)
    contexts = TlsContexts(RECOGNISER, "", "", folder, ())
    factory = contexts.secure({MQTT: Recorder(MQTT)})
    servers = [factory(PEER, 0) for _ in range(6_000)]
    for server in servers:
        assert server.receive(hello[:6], 1) == ()
        assert not hasattr(server, "_tls")
    assert contexts._contexts == {}, "nor a context"
    assert contexts.handshakes.bytes_held == 6 * 6_000
    for server in servers:
        server.receive(b"", 2)
    assert contexts.handshakes.bytes_held == 0


@pytest.mark.parametrize("size", [1, 5, 9, 100])
def test_a_hello_in_pieces_is_answered_when_it_is_whole(folder: Path, size: int) -> None:
    hello = hello_of(folder)
    server = server_of(folder, Recorder(MQTT))
    for at in range(0, len(hello), size):
        assert server.outgoing() == ()
        assert server.receive(hello[at : at + size], 1) == ()
    assert server.outgoing()[0][:1] == b"\x16"


def test_a_hello_in_many_records_is_answered(folder: Path) -> None:
    message = hello_of(folder)[5:]
    records = b"".join(b"\x16\x03\x01\x00\x01" + message[at : at + 1] for at in range(3))
    records += b"\x16\x03\x01" + (len(message) - 3).to_bytes(2, "big") + message[3:]
    server = server_of(folder, Recorder(MQTT))
    assert server.receive(records[:-1], 1) == ()
    assert not hasattr(server, "_tls")
    assert server.receive(records[-1:], 1) == ()
    assert server.outgoing()[0][:1] == b"\x16"


def test_a_hello_in_records_without_number_is_left_to_openssl(folder: Path) -> None:
    record = b"\x16\x03\x01\x00\x01"
    message = b"\x01\x00\xff\xff" + bytes(RECORDS_MAX - 4)
    records = b"".join([record + message[at : at + 1] for at in range(RECORDS_MAX)])
    server = server_of(folder, Recorder(MQTT))
    assert server.receive(records[:-6], 1) == ()
    assert not hasattr(server, "_tls")
    assert server.receive(records[-6:], 1) == ()
    assert hasattr(server, "_tls")


def test_a_hello_without_end_is_refused(folder: Path) -> None:
    server = server_of(folder, Recorder(MQTT))
    fragment = b"\x16\x03\x01\x40\x00" + bytes(1 << 14)
    first = b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes((1 << 14) - 4)
    assert [server.receive(data, 1) for data in (first, fragment, fragment)] == [(), (), ()]
    assert server.receive(fragment, 1) == (Disconnected("tls-handshake"),)


def test_a_host_has_half_of_the_handshakes_and_another_one_has_room(folder: Path) -> None:
    hello = hello_of(folder)
    contexts = TlsContexts(RECOGNISER, "", "", folder, ())
    factory = contexts.secure({MQTT: Recorder(MQTT)})
    contexts.handshakes.bytes_max = 8 * HANDSHAKE_BYTES
    servers = [factory(PEER, 0) for _ in range(5)]
    outcomes = [server.receive(hello, 1) for server in servers]
    assert outcomes == [()] * 4 + [(Disconnected("tls-handshakes"),)]
    assert contexts.handshakes.refused == 1
    other = PEER._replace(host="10.0.0.2")
    assert factory(other, 0).receive(hello, 1) == ()
    assert servers[0].expire(limits.HANDSHAKE_NS) == (Disconnected("tls-handshake"),)
    assert factory(PEER, 0).receive(hello, 1) == ()


def test_a_handshake_counts_until_the_protocol_inside_is_known(folder: Path) -> None:
    mqtt = Recorder(MQTT)
    contexts = TlsContexts(RECOGNISER, "", "", folder, ())
    server, client = contexts.secure({MQTT: mqtt})(PEER, 0), Client(folder, [])
    client.handshake(server)
    client.exchange(server)
    assert contexts.handshakes.bytes_held == HANDSHAKE_BYTES
    client.tls.write(CONNECT)
    client.exchange(server)
    assert mqtt.connection.received == [CONNECT]
    assert contexts.handshakes.bytes_held == 0


def test_handshake_has_ten_seconds(folder: Path) -> None:
    server = server_of(folder, Recorder(MQTT))
    server.receive(b"\x16\x03\x01", 1)
    assert server.deadline() == limits.HANDSHAKE_NS
    assert server.expire(limits.HANDSHAKE_NS) == (Disconnected("tls-handshake"),)


def test_backpressure_of_the_protocol_inside_shows(folder: Path) -> None:
    mqtt = Recorder(MQTT)
    server, client = connected(folder, mqtt)
    mqtt.connection.reading = False
    client.tls.write(CONNECT)
    client.exchange(server)
    assert not server.reading


def test_opening_takes_tls_and_knows_the_protocol_inside(folder: Path) -> None:
    mqtt = Recorder(MQTT)
    opening = Opening(RECOGNISER, {}, TlsContexts(RECOGNISER, "", "", folder, ()).secure({MQTT: mqtt}), PEER, 0)
    client = Client(folder, [])
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.do_handshake()
    opening.receive(client.outgoing.read(), 1)
    assert opening.protocol == ""
    server = opening.chosen
    assert isinstance(server, TlsConnection)
    client.exchange(server)
    client.handshake(server)
    client.tls.write(CONNECT)
    client.exchange(server)
    assert opening.protocol == MQTT


def test_certificate_is_made_once_and_its_key_is_ours_alone(tmp_path: Path) -> None:
    contexts = TlsContexts(RECOGNISER, "", "", tmp_path, ["localhost"])
    contexts.check()
    assert not (tmp_path / "tls").exists()
    contexts.context((HTTP2,))
    first = (tmp_path / "tls" / "certificate.pem").read_bytes()
    TlsContexts(RECOGNISER, "", "", tmp_path, ["localhost"]).context((HTTP2,))
    assert (tmp_path / "tls" / "certificate.pem").read_bytes() == first
    assert (tmp_path / "tls" / "key.pem").stat().st_mode & 0o077 == 0


def test_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.pem").write_text("not a certificate")
    with pytest.raises(ConfigError, match=r"a\.pem with key .*b\.pem cannot be used"):
        TlsContexts(RECOGNISER, str(tmp_path / "a.pem"), str(tmp_path / "b.pem"), tmp_path, ()).check()
