"""TLS and access keys of the blocking client: what is checked and shown, what is never shown, what is not tried again."""

from __future__ import annotations

import base64
import hashlib
import hmac
import pickle
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from gateway.client.answer import KeyPlaceError, KeyRefusedError, NotPermittedError, TlsError, UnreachableError
from gateway.client.client import Client
from gateway.client.security import AccessKey, KeyPlace, Tls
from tests.gateway.client.fake_broker import FakeBroker
from tests.interop import certificates

SECRET = "wonder:land"
TOKEN = "t0k3n-of-alice"
LONG_S = 1000.0
"""Longer than a test may take: what ends before was not tried again."""


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker() as broker:
        broker.create("orders")
        yield broker


@pytest.fixture
def place(tmp_path: Path) -> KeyPlace:
    """The place of alice's access key."""
    file = tmp_path / "key"
    file.write_text(f"alice:{SECRET}\n{TOKEN}\n")
    return KeyPlace(file=str(file))


def client(broker: FakeBroker, **more: Any) -> Client:
    return Client(broker.address, **{"timeout_s": 5, "retry_s": LONG_S, **more})


def served(broker: FakeBroker, folder: Path, **more: Any) -> tuple[Path, Path]:
    """Let the broker take TLS only, with a certificate of its own. Returns (certificate, key)."""
    certificate, key = certificates.write(folder, 7, **more)
    broker.secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    broker.secure.load_cert_chain(certificate, key)
    return certificate, key


def test_a_signature_is_that_of_rocketmqs_acl() -> None:
    signed = AccessKey("alice", SECRET, TOKEN).signed({"topic": "orders", "bname": "broker-ä"}, b"\x00body")
    content = f"alice{TOKEN}broker-äorders".encode() + b"\x00body"
    wanted = base64.b64encode(hmac.new(SECRET.encode(), content, hashlib.sha1).digest()).decode()
    assert signed == {"topic": "orders", "bname": "broker-ä", "AccessKey": "alice", "SecurityToken": TOKEN, "Signature": wanted}
    assert "SecurityToken" not in AccessKey("alice", SECRET).signed({}, b"")


def test_every_request_is_signed(broker: FakeBroker, place: KeyPlace) -> None:
    broker.keys = (place.read(),)
    with client(broker, key=place) as one:
        [queue] = one.route("orders").queues
        one.send("orders", b"x", tag="t")
        assert one.bounds([queue])[queue].after == 1
        assert [pull.status for pull in one.scan(queue, 0, 1)] == ["FOUND"]
        assert one.search([queue], 0) == {queue: 0}
        one.hold("reader", {queue: 0}, 1000)
    assert {code for code, _ in broker.seen} == {105, 310, 30000, 11, 29, 30001}
    assert all(fields["AccessKey"] == "alice" and fields["SecurityToken"] == TOKEN for _, fields in broker.seen)
    assert SECRET not in repr(broker.seen)


def test_a_key_is_in_no_text_and_in_no_pickle(place: KeyPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    key = place.read()
    monkeypatch.setenv("ALICES_KEY", f"alice:{SECRET}")
    assert KeyPlace(variable="ALICES_KEY").read() == AccessKey("alice", SECRET) != key
    for shown in (repr(key), str(key), repr(place), str(place), f"{place.read()!s}", repr(pickle.dumps(place))):
        assert SECRET not in shown
        assert TOKEN not in shown
    with pytest.raises(TypeError, match="an access key is not pickled"):
        pickle.dumps(key)
    assert pickle.loads(pickle.dumps(place)).read() == key


@pytest.mark.parametrize("text", ["", "hush-hush", "hush-hush:", ":hush-hush", "\nalice:hush-hush"])
def test_a_key_that_is_not_written_right_is_not_shown(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    with pytest.raises(KeyPlaceError, match=r"in file .*key is not written NAME:PASSWORD in the first line") as caught:
        KeyPlace(file=str(tmp_path / "key")).read()
    assert "hush" not in repr(caught.value)


def test_a_key_that_cannot_be_read_is_named_and_not_tried_again(broker: FakeBroker, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"alice:hush\xff")
    for place, says in (
        (KeyPlace(file=str(tmp_path / "key")), "it is not UTF-8"),
        (KeyPlace(file=str(tmp_path / "none")), r"file .*none cannot be read \(No such file"),
        (KeyPlace(variable="NO_SUCH_KEY"), "environment variable NO_SUCH_KEY is not set in process"),
        (KeyPlace(file="alice:hush"), "file … cannot be read"),
    ):
        with pytest.raises(KeyPlaceError, match=says) as caught, client(broker, key=place) as one:
            one.topics()
        assert "hush" not in repr(caught.value)
        assert caught.value.__cause__ is None
    assert broker.connections == 0


def test_a_refused_key_is_an_error_at_once(broker: FakeBroker, place: KeyPlace) -> None:
    broker.keys = (AccessKey("alice", "another"),)
    with client(broker, key=place) as one, pytest.raises(KeyRefusedError) as caught:
        one.route("orders")
    assert f"nameserver {broker.address}: code 16 check signature failed. Correct the access key in file" in str(caught.value)
    assert SECRET not in str(caught.value)
    with client(broker) as one, pytest.raises(KeyRefusedError, match=r"there is no access key: give one \(accessKeyFile"):
        one.route("orders")
    assert len(broker.seen) == 2


def test_a_refusal_by_the_first_acl_of_rocketmq_is_not_tried_again(broker: FakeBroker, place: KeyPlace) -> None:
    broker.answers[206] = [(1, "org.apache.rocketmq.acl.common.AclException: CODE: 10015 DESC: check signature failed")]
    with client(broker, key=place) as one, pytest.raises(KeyRefusedError):
        one.topics()


def test_a_missing_right_is_named(broker: FakeBroker, place: KeyPlace) -> None:
    with client(broker, key=place) as one:
        [queue] = one.route("orders").queues
        broker.put("orders", b"x")
        broker.answers[11] = [(16, "User:alice has no permission for Sub on Topic:orders from 127.0.0.1")]
        with pytest.raises(
            NotPermittedError, match=r"reading orders queue 0 at broker-a: .*Sub on Topic:orders .*Grant"
        ) as caught:
            list(one.scan(queue, 0, 1))
    assert caught.value.code == 16


def test_a_changed_key_is_read_again_when_the_old_one_is_refused(broker: FakeBroker, place: KeyPlace) -> None:
    """First in the place, then at the server: requests of open connections are signed by the new key from then on."""
    broker.keys = (place.read(),)
    with client(broker, key=place) as one:
        one.route("orders")
        Path(place.file).write_text("alice:another")
        one.route("orders")
        broker.keys = (AccessKey("alice", "another"),)
        one.route("orders")
        assert broker.connections == 2
        broker.keys = (AccessKey("alice", "a third"),)
        with pytest.raises(KeyRefusedError):
            one.route("orders")
    assert broker.connections == 2


def test_tls_with_the_right_authority_carries_everything(broker: FakeBroker, place: KeyPlace, tmp_path: Path) -> None:
    certificate, _ = served(broker, tmp_path)
    broker.keys = (place.read(),)
    for number in range(200):
        broker.put("orders", b"%d" % number * 1000)
    with client(broker, tls=Tls(str(certificate)), key=place) as one:
        [queue] = one.route("orders").queues
        one.send("orders", b"x" * 1_000_000)
        assert sum(len(pull.body) for pull in one.scan(queue, 0, 201)) > 1_400_000


@pytest.mark.parametrize(
    ("names", "days", "own", "says"),
    [
        (
            ("localhost", "127.0.0.1"),
            1,
            False,
            r"certificate is signed by no authority of .*other/certificate\.pem .*tlsCaFile",
        ),
        (("localhost", "127.0.0.1"), -1, True, "certificate has expired.*Renew it"),
        (("example.org",), 1, True, "certificate is not for this name .*advertise"),
    ],
)
def test_a_certificate_that_is_not_accepted_is_an_error_at_once(
    broker: FakeBroker, tmp_path: Path, names: tuple[str, ...], days: int, own: bool, says: str
) -> None:
    certificate, _ = served(broker, tmp_path, names=names, days=days)
    other, _ = certificates.write(tmp_path / "other", 8)
    with client(broker, tls=Tls(str(certificate if own else other))) as one, pytest.raises(TlsError, match=says) as caught:
        one.topics()
    assert str(caught.value).startswith(broker.address)
    assert broker.seen == []


def test_a_server_without_tls_is_an_error_at_once(tmp_path: Path) -> None:
    certificate, _ = certificates.write(tmp_path, 7)
    with FakeBroker() as broker:
        broker.banner = b"220 mail.example.org ESMTP\r\n"
        with client(broker, tls=Tls(str(certificate))) as one, pytest.raises(TlsError, match="does not answer by TLS"):
            one.topics()


def test_a_server_with_tls_only_is_hinted_at(broker: FakeBroker, tmp_path: Path) -> None:
    served(broker, tmp_path)
    with (
        client(broker, retry_s=0) as one,
        pytest.raises(UnreachableError, match="without a word: a server that takes TLS only"),
    ):
        one.topics()


def test_a_client_certificate_is_shown(broker: FakeBroker, tmp_path: Path) -> None:
    certificate, _ = served(broker, tmp_path)
    shown, key = certificates.write(tmp_path / "client", 8)
    assert broker.secure is not None
    broker.secure.verify_mode = ssl.CERT_REQUIRED
    broker.secure.load_verify_locations(shown)
    with client(broker, tls=Tls(str(certificate), str(shown), str(key))) as one:
        assert one.topics() == ["orders"]
    both = tmp_path / "both.pem"
    both.write_bytes(shown.read_bytes() + key.read_bytes())
    with client(broker, tls=Tls(str(certificate), str(both))) as one:
        assert one.topics() == ["orders"]
    with (
        client(broker, tls=Tls(str(certificate))) as one,
        pytest.raises(TlsError, match="refuses TLS with no client certificate"),
    ):
        one.topics()


def test_files_of_tls_that_cannot_be_used_are_named(broker: FakeBroker, tmp_path: Path) -> None:
    certificate, key = served(broker, tmp_path)
    private = serialization.load_pem_private_key(key.read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"passphrase")
    (tmp_path / "locked.pem").write_bytes(
        private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
    )
    for tls, says in (
        (Tls(str(tmp_path / "none.pem")), r"authorities of TLS cannot be read from .*none\.pem: No such file"),
        (Tls(str(key)), r"authorities of TLS cannot be read from .*key\.pem: NO_CERTIFICATE_OR_CRL_FOUND"),
        (Tls(str(certificate), str(certificate)), "with key in the same file cannot be used"),
        (Tls(str(certificate), str(certificate), str(tmp_path / "locked.pem")), "the key without passphrase"),
    ):
        with pytest.raises(TlsError, match=says), client(broker, tls=tls) as one:
            one.topics()
    assert broker.connections == 0


def test_a_server_that_stops_in_the_handshake_is_tried_again(broker: FakeBroker, tmp_path: Path) -> None:
    certificate, _ = served(broker, tmp_path)
    broker.drops = 2
    with client(broker, tls=Tls(str(certificate))) as one:
        assert one.topics() == ["orders"]
    assert broker.drops == 0


def test_a_handshake_has_a_deadline(broker: FakeBroker, tmp_path: Path) -> None:
    """The server accepts and says nothing, as one whose process is stopped."""
    certificate, _ = certificates.write(tmp_path, 7)
    with (
        client(broker, tls=Tls(str(certificate)), timeout_s=0.05, retry_s=0) as one,
        pytest.raises(UnreachableError, match="TLS"),
    ):
        one.topics()
