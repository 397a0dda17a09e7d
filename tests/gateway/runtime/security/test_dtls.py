"""DTLS around an endpoint: cookies before state, keys of users, bounds, and sessions apart. The client is OpenSSL's."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from domain.access.access import SharedKey
from domain.address import host_bytes
from domain.command import Command
from domain.event import Event
from gateway.node.protocols import installed
from gateway.runtime.security import dtls_endpoint as dtls
from gateway.runtime.security import hello, openssl
from gateway.runtime.security.dtls_context import DtlsContext
from gateway.runtime.security.dtls_endpoint import DtlsEndpoint
from gateway.runtime.security.openssl import ffi
from gateway.runtime.tls import TlsContexts
from protocols.adapter import Peer
from protocols.coap.message import message, option
from protocols.coap.message.message import Packet, Pairs
from tests.interop import certificates
from tests.protocols.coap.stage import Stage

pytestmark = pytest.mark.skipif(openssl.library() is None, reason="libssl.so.3 is not installed")

_CLIENT: Any = ffi.__class__()
_CLIENT.cdef("""
    typedef struct ssl_st SSL; typedef struct ssl_ctx_st SSL_CTX; typedef struct bio_st BIO;
    const void *DTLS_client_method(void); SSL_CTX *SSL_CTX_new(const void *method); SSL *SSL_new(SSL_CTX *ctx);
    void SSL_CTX_set_psk_client_callback(SSL_CTX *ctx, unsigned int (*callback)(SSL *ssl, const char *hint, char *identity,
        unsigned int identity_max, unsigned char *psk, unsigned int psk_max));
    int SSL_CTX_set_cipher_list(SSL_CTX *ctx, const char *text); void SSL_set_bio(SSL *ssl, BIO *in, BIO *out);
    int SSL_connect(SSL *ssl); int SSL_read(SSL *ssl, void *buffer, int size); int SSL_shutdown(SSL *ssl);
    int SSL_write(SSL *ssl, const void *data, int size); int SSL_get_error(const SSL *ssl, int result);
    uint64_t SSL_CTX_set_options(SSL_CTX *ctx, uint64_t options); long SSL_ctrl(SSL *ssl, int cmd, long larg, void *parg);
    BIO *BIO_new(const void *kind); const void *BIO_s_mem(void); int BIO_write(BIO *bio, const void *data, int size);
    int BIO_read(BIO *bio, void *buffer, int size); long BIO_ctrl(BIO *bio, int cmd, long larg, void *parg);
    void ERR_clear_error(void);
""")


ZERO_RETURN = 6
"""The error of OpenSSL that stands for a `close_notify` of the peer."""


class Client:
    """A DTLS client with a pre-shared key, in memory."""

    def __init__(self, identity: str, key: bytes, cipher: str = "PSK-AES128-CCM8:@SECLEVEL=0", port: int = 40_000) -> None:
        lib = self.lib = _CLIENT.dlopen("libssl.so.3")
        context = lib.SSL_CTX_new(lib.DTLS_client_method())

        def psk(_ssl: object, _hint: object, name: Any, _name_max: int, secret: Any, _secret_max: int) -> int:
            _CLIENT.memmove(name, identity.encode() + b"\0", len(identity) + 1)
            _CLIENT.memmove(secret, key, len(key))
            return len(key)

        kind = "unsigned int(SSL *, const char *, char *, unsigned int, unsigned char *, unsigned int)"
        self.kept = _CLIENT.callback(kind, psk)
        lib.SSL_CTX_set_psk_client_callback(context, self.kept)
        assert lib.SSL_CTX_set_cipher_list(context, cipher.encode()) == 1
        lib.SSL_CTX_set_options(context, openssl.OP_NO_QUERY_MTU)
        self.ssl = lib.SSL_new(context)
        lib.SSL_ctrl(self.ssl, openssl.CTRL_SET_MTU, 1_280, _CLIENT.NULL)
        self.incoming, self.outgoing = lib.BIO_new(lib.BIO_s_mem()), lib.BIO_new(lib.BIO_s_mem())
        for bio in (self.incoming, self.outgoing):
            lib.BIO_ctrl(bio, openssl.BIO_SET_EOF_RETURN, -1, _CLIENT.NULL)
        lib.SSL_set_bio(self.ssl, self.incoming, self.outgoing)
        self.peer = Peer("192.0.2.1", port, host_bytes("192.0.2.1", port))

    def feed(self, data: bytes) -> None:
        self.lib.BIO_write(self.incoming, data, len(data))

    def connect(self) -> int:
        """One step of the handshake: 1 when it is done, -1 when it failed, 0 when more must come."""
        self.lib.ERR_clear_error()
        result = self.lib.SSL_connect(self.ssl)
        if result == 1:
            return 1
        return 0 if self.lib.SSL_get_error(self.ssl, result) == openssl.ERROR_WANT_READ else -1

    def write(self, plain: bytes) -> bytes:
        self.lib.SSL_write(self.ssl, plain, len(plain))
        return self.take()

    def read(self) -> bytes:
        buffer = _CLIENT.new("unsigned char[]", 20_000)
        size = self.lib.SSL_read(self.ssl, buffer, 20_000)
        return bytes(_CLIENT.buffer(buffer, size)) if size > 0 else b""

    def take(self) -> bytes:
        size = self.lib.BIO_ctrl(self.outgoing, openssl.BIO_PENDING, 0, _CLIENT.NULL)
        buffer = _CLIENT.new("unsigned char[]", max(size, 1))
        self.lib.BIO_read(self.outgoing, buffer, size)
        return bytes(_CLIENT.buffer(buffer, size)) if size > 0 else b""


class Echo:
    """An endpoint that sends back what it gets."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.got: list[tuple[bytes, Peer]] = []
        self.gone: list[Peer] = []
        self.out: list[tuple[bytes, tuple[str, int]]] = []

    def receive(self, data: bytes, peer: Peer, now: int) -> Sequence[Command]:
        self.got.append((data, peer))
        self.out.append((b"echo " + data, (peer.host, peer.port)))
        return ()

    def answer(self, event: Event, now: int) -> None:
        raise AssertionError(event)

    def outgoing(self) -> Sequence[tuple[bytes, tuple[str, int]]]:
        out, self.out = self.out, []
        return out

    def deadline(self) -> int | None:
        return None

    def expire(self, now: int) -> Sequence[Command]:
        return ()

    def forget(self, peer: Peer, now: int) -> Sequence[Command]:
        self.gone.append(peer)
        return ()


class Scene:
    """An endpoint of DTLS in memory. `keys`: user -> key."""

    def __init__(self, folder: Path) -> None:
        certificate, key = certificates.write(folder, 3)
        self.keys = {"sensor": b"a long secret"}
        self.context = DtlsContext((str(certificate), str(key)), "", self._key_of, os.urandom)
        self.inner = Echo()
        self.wrong: list[tuple[str, str]] = []
        self.asked: list[tuple[str, str]] = []
        self.endpoint = DtlsEndpoint(self.inner, lambda: self.context, b"k" * 16, lambda *who: self.wrong.append(who))
        self.now = 10**12

    def _key_of(self, identity: str, host: str) -> bytes | None:
        self.asked.append((identity, host))
        return self.keys.get(identity)

    def receive(self, data: bytes, client: Client) -> None:
        self.endpoint.receive(data, client.peer, self.now)

    def shake(self, client: Client) -> int:
        """The handshake: 1 done, -1 refused, 0 no answer."""
        for _ in range(8):
            done = client.connect()
            sent = client.take()
            for part in hello.datagrams(sent, 1):
                self.receive(part, client)
            if done:
                self.endpoint.outgoing()
                return done
            for data, _ in self.endpoint.outgoing():
                client.feed(data)
        return 0

    def say(self, client: Client, plain: bytes) -> bytes:
        self.endpoint.receive(client.write(plain), client.peer, self.now)
        for data, address in self.endpoint.outgoing():
            assert address == (client.peer.host, client.peer.port)
            client.feed(data)
        return client.read()


class CoapScene(Scene):
    """CoAP inside DTLS, before a gateway made of dictionaries. What is sent to an address reaches who has that address now."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.stage = Stage()
        self.endpoint = DtlsEndpoint(self.stage.endpoint, lambda: self.context, b"k" * 16)
        self.now = self.stage.now
        self.at: dict[tuple[str, int], Client] = {}
        self.mid = 0

    def receive(self, data: bytes, client: Client) -> None:
        self.at[client.peer.host, client.peer.port] = client
        self.stage.carry_out(self.endpoint.receive(data, client.peer, self.now))

    def device(self, identity: str, port: int) -> Client:
        """A device with a session."""
        client = Client(identity, self.keys[identity], port=port)
        assert self.shake(client) == 1
        return client

    def ask(self, client: Client, code: int, path: str, pairs: Pairs | None = None, query: str = "") -> list[Packet]:
        """Send a request. Returns what comes to the client upon it."""
        self.mid += 1
        options: Pairs = [(option.URI_PATH, level.encode()) for level in path.split("/")] + (pairs or [])
        if query:
            options.append((option.URI_QUERY, query.encode()))
        self.receive(client.write(message.encode(message.CON, code, self.mid, b"tk", message.join(options), b"")), client)
        return self.heard(client)

    def heard(self, client: Client) -> list[Packet]:
        """Deliver what was sent. Returns what comes to the client."""
        for data, address in self.endpoint.outgoing():
            if address in self.at:
                self.at[address].feed(data)
        found = []
        while plain := client.read():
            packet = message.decode(plain)
            assert packet is not None
            found.append(packet)
        return found

    def advance(self, seconds: int) -> None:
        """Let time pass. Datagrams that are sent meanwhile are lost."""
        for _ in range(seconds):
            self.now = self.stage.now = self.now + 10**9
            self.stage.carry_out(self.endpoint.expire(self.now))
            self.endpoint.outgoing()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.fixture
def coap_scene(tmp_path: Path) -> CoapScene:
    return CoapScene(tmp_path)


@pytest.mark.parametrize("cipher", ["PSK-AES128-CCM8:@SECLEVEL=0", "PSK-AES128-GCM-SHA256", "ECDHE-PSK-CHACHA20-POLY1305"])
def test_a_user_proves_itself_by_its_key(scene: Scene, cipher: str) -> None:
    client = Client("sensor", b"a long secret", cipher)
    assert scene.shake(client) == 1
    assert scene.say(client, b"hello") == b"echo hello"
    ((plain, peer),) = scene.inner.got
    assert (plain, peer.credentials, peer.tls) == (b"hello", SharedKey("sensor", b"a long secret"), True)
    assert peer.source == host_bytes("192.0.2.1", peer.port)
    assert peer.born_host == client.peer.born_host


@pytest.mark.parametrize(("identity", "key"), [("sensor", b"a wrong secret"), ("stranger", b"a long secret"), ("", b"x")])
def test_wrong_key_and_unknown_identity_fail_alike(scene: Scene, identity: str, key: bytes) -> None:
    client = Client(identity, key)
    assert scene.shake(client) == -1  # a fatal alert has come
    assert scene.endpoint.counts["tls-handshake"] == 1
    assert not scene.inner.got
    assert not scene.endpoint._handshakes
    assert scene.wrong == [(identity, "192.0.2.1")], "it is a failed login of this host, whose cookie has proven its address"
    assert set(scene.asked) == {(identity, "192.0.2.1")}


def test_a_handshake_that_ends_for_another_reason_is_no_failed_login(scene: Scene) -> None:
    client = Client("sensor", b"a long secret")
    client.connect()
    for _ in range(2):
        for part in hello.datagrams(client.take(), 1):
            scene.receive(part, client)
        for data, _ in scene.endpoint.outgoing():
            client.feed(data)
        client.connect()
    scene.now += 120 * 10**9
    scene.endpoint.expire(scene.now)
    assert not scene.endpoint._handshakes
    assert scene.wrong == []


def test_an_unknown_identity_takes_the_steps_of_a_wrong_key(scene: Scene) -> None:
    """Who asks learns nothing from it: the key that nobody has is tried too (RFC 4279, 2)."""

    def steps(identity: str, port: int) -> list[list[int]]:
        """The lengths of the datagrams of each answer, and the last two octets: the alert."""
        client = Client(identity, b"a wrong secret!!", port=port)
        client.connect()
        found = []
        while data := client.take():
            scene.endpoint.receive(data, client.peer, scene.now)
            out = [each for each, _ in scene.endpoint.outgoing()]
            found.append([len(each) for each in out])
            for each in out:
                client.feed(each)
            client.connect()
        found.append(list(out[-1][-2:]))
        return found

    known = steps("sensor", 41_000)
    assert known[-1] == [2, 0x33]  # fatal decrypt_error, from the check of Finished
    assert steps("stranger", 42_000) == known


def test_nothing_is_kept_before_a_cookie_and_less_is_sent_than_came(scene: Scene) -> None:
    client = Client("sensor", b"a long secret")
    client.connect()
    greeting = client.take()
    for port in range(1, 5_000):
        scene.endpoint.receive(greeting, Peer("203.0.113.9", port, host_bytes("203.0.113.9", port)), scene.now)
    out = scene.endpoint.outgoing()
    assert len(out) == 4_999
    assert all(len(data) < len(greeting) for data, _ in out)
    assert not scene.endpoint._handshakes
    assert not scene.endpoint._sessions
    assert scene.endpoint.counts["dtls-cookie"] == 4_999


def test_a_cookie_is_good_for_its_address_its_hello_and_a_short_time(scene: Scene) -> None:
    client = Client("sensor", b"a long secret")
    client.connect()
    scene.endpoint.receive(client.take(), client.peer, scene.now)
    client.feed(scene.endpoint.outgoing()[0][0])
    client.connect()
    second = client.take()
    scene.endpoint.receive(second, client.peer._replace(port=9), scene.now)
    scene.endpoint.receive(second, client.peer, scene.now + 3 * hello.WINDOW_NS)
    changed = bytearray(second)
    changed[30] ^= 1  # the random bytes
    scene.endpoint.receive(bytes(changed), client.peer, scene.now)
    assert not scene.endpoint._handshakes
    scene.endpoint.receive(second, client.peer, scene.now)
    assert len(scene.endpoint._handshakes) == 1


def test_handshakes_of_one_host_are_bounded_and_given_up(scene: Scene) -> None:
    for port in range(100):
        client = Client("sensor", b"a long secret", port=50_000 + port)
        client.connect()
        scene.endpoint.receive(client.take(), client.peer, scene.now)
        client.feed(scene.endpoint.outgoing()[0][0])
        client.connect()
        scene.endpoint.receive(client.take(), client.peer, scene.now)
        scene.endpoint.outgoing()
    assert len(scene.endpoint._handshakes) == dtls.HANDSHAKES_OF_HOST_MAX
    assert scene.endpoint.counts["connect-rate"] == 100 - dtls.HANDSHAKES_OF_HOST_MAX
    scene.now += 11 * 10**9
    due = scene.endpoint.deadline()
    assert due is not None
    assert due <= scene.now
    scene.endpoint.expire(scene.now)
    assert not scene.endpoint._handshakes
    assert not scene.endpoint._begun_of_host


def test_begun_handshakes_of_a_second_are_bounded() -> None:
    rate = dtls.Rate()
    assert [rate.take("a", 5) for _ in range(dtls.RATE_OF_HOST + 1)][-2:] == [True, False]
    taken = sum(rate.take(str(number), 6) for number in range(1_000))
    assert taken == dtls.RATE - dtls.RATE_OF_HOST
    assert rate.take("a", 2 * 10**9)


def test_a_new_session_of_an_address_is_another_peer(scene: Scene) -> None:
    first = Client("sensor", b"a long secret")
    scene.shake(first)
    assert scene.say(first, b"1") == b"echo 1"
    old = scene.inner.got[-1][1]
    scene.inner.out.append((b"late answer", (old.host, old.port)))
    scene.keys["other"] = b"other secret"
    second = Client("other", b"other secret")
    assert scene.shake(second) == 1
    assert [peer.port for peer in scene.inner.gone] == [old.port]
    assert scene.say(second, b"2") == b"echo 2"  # and not the late answer to the first
    assert scene.inner.got[-1][1].source != old.source


def test_an_unfinished_handshake_does_not_end_the_session_of_its_address(scene: Scene) -> None:
    client = Client("sensor", b"a long secret")
    scene.shake(client)
    stranger = Client("sensor", b"wrong")
    assert scene.shake(stranger) == -1
    assert scene.say(client, b"still here") == b"echo still here"


def test_replayed_and_changed_records_are_ignored(scene: Scene) -> None:
    client = Client("sensor", b"a long secret")
    scene.shake(client)
    record = client.write(b"once")
    scene.endpoint.receive(record, client.peer, scene.now)
    scene.endpoint.receive(record, client.peer, scene.now)
    changed = bytearray(client.write(b"twice"))
    changed[-1] ^= 1
    scene.endpoint.receive(bytes(changed), client.peer, scene.now)
    assert [plain for plain, _ in scene.inner.got] == [b"once"]
    assert scene.say(client, b"go on") in (b"echo once", b"echo go on")


def test_close_notify_ends_the_session(scene: Scene) -> None:
    client = Client("sensor", b"a long secret")
    scene.shake(client)
    client.lib.SSL_shutdown(client.ssl)
    scene.endpoint.receive(client.take(), client.peer, scene.now)
    assert len(scene.inner.gone) == 1
    assert not scene.endpoint._sessions
    assert not scene.endpoint._of_host


def test_a_node_that_stops_says_goodbye_to_each_session(scene: Scene) -> None:
    clients = [Client("sensor", b"a long secret", port=40_000 + number) for number in range(3)]
    for client in clients:
        scene.shake(client)
    unfinished = Client("sensor", b"a long secret", port=41_000)
    unfinished.connect()
    scene.endpoint.receive(unfinished.take(), unfinished.peer, scene.now)
    scene.endpoint.outgoing()
    scene.inner.out.append((b"the last answer", (clients[0].peer.host, next(iter(scene.endpoint._by_number)))))
    last = scene.endpoint.outgoing()
    scene.endpoint.drain(scene.now)
    sent = {address[1]: data for data, address in scene.endpoint.outgoing()}
    assert sorted(sent) == [40_000, 40_001, 40_002]
    clients[0].feed(last[0][0])
    assert clients[0].read() == b"the last answer"
    for client in clients:
        client.feed(sent[client.peer.port])
        assert client.read() == b""
        assert client.lib.SSL_get_error(client.ssl, 0) == ZERO_RETURN


def test_a_session_makes_room_for_another_of_its_host(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dtls, "SESSIONS_OF_HOST_MAX", 3)
    clients = [Client("sensor", b"a long secret", port=40_000 + number) for number in range(4)]
    for client in clients[:3]:
        scene.shake(client)
    scene.say(clients[0], b"used")
    scene.shake(clients[3])
    assert set(scene.endpoint._sessions) == {("192.0.2.1", 40_000 + number) for number in (0, 2, 3)}
    assert scene.endpoint.counts["dtls-evicted"] == 1


def test_a_device_whose_address_changes_goes_on_by_a_new_handshake(coap_scene: CoapScene) -> None:
    """OpenSSL has no connection ids (RFC 9146), so a record from another address belongs to no session."""
    device = coap_scene.device("sensor", 40_000)
    assert [message.name(each.code) for each in coap_scene.ask(device, message.PUT, "mq/t")] == ["2.01"]
    device.peer = device.peer._replace(port=50_000, born_host=host_bytes("192.0.2.1", 50_000))
    assert coap_scene.ask(device, message.PUT, "mq/t") == []
    assert coap_scene.endpoint.counts["dtls-stray"] == 1
    assert len(coap_scene.stage.log) == 1
    again = coap_scene.device("sensor", 50_000)
    assert [message.name(each.code) for each in coap_scene.ask(again, message.PUT, "mq/t")] == ["2.04"]


@pytest.mark.parametrize("taken", [True, False], ids=["another device gets the old address", "nobody gets the old address"])
def test_what_a_device_was_sent_at_its_old_address_is_nobody_elses(coap_scene: CoapScene, taken: bool) -> None:
    stage = coap_scene.stage
    coap_scene.keys["other"] = b"other secret"
    gone = coap_scene.device("sensor", 40_000)
    coap_scene.ask(gone, message.GET, "mq/t", [(option.OBSERVE, b"")])
    coap_scene.ask(gone, message.GET, "mq/work", [(option.OBSERVE, b"")], "group=crew")
    stage.arrive(b"job", "work")
    assert len(stage.leased) == 1
    if taken:
        other = coap_scene.device("other", 40_000)
        stage.publish("t", b"for the sensor alone")
        assert coap_scene.heard(other) == []  # no notification comes, and it can acknowledge none
        other_ack = other.write(message.empty(message.ACK, 1))
        coap_scene.receive(other_ack, other)
    else:
        coap_scene.advance(94)
    assert stage.leased == {}, "the message is available again"
    assert stage.endpoint.observations.count == 0
    stage.queue.append(stage.log[0][1])
    back = coap_scene.device("sensor", 50_000)
    heard = coap_scene.ask(back, message.GET, "mq/work", [(option.OBSERVE, b"")], "group=crew")
    assert [each.payload for each in heard if each.kind == message.CON] == [b"job"]


def test_random_datagrams_never_raise(scene: Scene) -> None:
    import random

    chance = random.Random(4)
    client = Client("sensor", b"a long secret")
    scene.shake(client)
    for _ in range(2_000):
        data = bytearray(chance.randbytes(chance.randrange(0, 120)))
        if len(data) > 14 and chance.random() < 0.8:
            data[0] = chance.choice((20, 21, 22, 23))
            data[1:3] = b"\xfe\xfd"
            data[3:5] = bytes((0, chance.randrange(2)))
            data[11:13] = (len(data) - 13).to_bytes(2, "big")
            data[13] = chance.choice((1, 2, 16, 20))
        scene.endpoint.receive(bytes(data), client.peer, scene.now)
    scene.endpoint.outgoing()
    assert scene.say(client, b"after all") == b"echo after all"


def test_a_renewed_certificate_makes_another_context_and_sessions_go_on(scene: Scene, tmp_path: Path) -> None:
    certificate, key = (str(path) for path in certificates.write(tmp_path / "one", 1))
    contexts = TlsContexts(installed().recogniser, certificate, key, tmp_path, ["localhost"])
    current = contexts.for_datagrams(scene._key_of, os.urandom)
    first = current()
    assert current() is first
    scene.context = first
    client = Client("sensor", b"a long secret")
    assert scene.shake(client) == 1
    renewed, its_key = certificates.write(tmp_path / "two", 2)
    contexts.renew(str(renewed), str(its_key), "")
    scene.context = current()
    assert scene.context is not first
    del first
    gc.collect()
    assert scene.say(client, b"still") == b"echo still"
    assert scene.shake(Client("sensor", b"a long secret", port=40_001)) == 1
