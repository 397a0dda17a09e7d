"""The blocking client with a real node that controls access and takes TLS only: what it can read, and what it is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from domain.address import TEMPLATE_TOPIC
from gateway.client.answer import KeyRefusedError, NotPermittedError, TlsError
from gateway.client.client import Client
from gateway.client.security import KeyPlace, Tls
from tests.interop import certificates
from tests.interop.secured import Secured
from tests.patience import until

pytestmark = pytest.mark.interop
LONG_S = 10_000.0
"""Longer than a test may take: what ends before was not tried again."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority, _ = certificates.write(folder / "client", 8)
    with Secured(folder, "--client-ca", str(authority)) as running:
        with running.client(running.root) as root:
            until(lambda: TEMPLATE_TOPIC in root.topics(), 120)
            for topic in ("orders", "written", "closed"):
                root.send(topic, b"hello", queue_id=0)
        running.user("reader", "wonder:land")
        for resource, action in (("Topic:orders", "Sub"), ("Group:TOOLS_CONSUMER", "Sub"), ("Topic:written", "Pub")):
            running.allow("reader", resource, action)
        yield running


@pytest.fixture
def place(secured: Secured) -> KeyPlace:
    return secured.place("reader", "wonder:land")


def read(client: Client, topic: str) -> list[int]:
    """The offsets after each pull of queue 0."""
    queue = client.route(topic).queues[0]
    edges = client.bounds([queue])[queue]
    assert client.search([queue], 0)[queue] == edges.first
    return [pull.next_offset for pull in client.scan(queue, edges.first, edges.after, epoch=edges.epoch)]


def test_a_user_with_rights_reads(secured: Secured, place: KeyPlace) -> None:
    with secured.client(place) as client:
        assert read(client, "orders") == [1]
        queue = client.route("orders").queues[0]
        assert client._public_bounds([queue])[queue].after == 1
        client.hold("reader", {queue: 0}, 1000)
        client.send("written", b"x" * 100_000)


@pytest.mark.parametrize(
    ("topic", "says"),
    [
        ("closed", r"nameserver 127\.0\.0\.1:\d+: code 16 User:reader has no permission for Pub on Topic:closed"),
        ("written", r"reading written queue 0 at broker-a: code 16 User:reader has no permission for Sub on Topic:written"),
    ],
)
def test_a_missing_right_is_named(secured: Secured, place: KeyPlace, topic: str, says: str) -> None:
    with secured.client(place, LONG_S) as client, pytest.raises(NotPermittedError, match=says):
        read(client, topic)


def test_a_wrong_key_is_refused(secured: Secured) -> None:
    with secured.client(None, LONG_S) as client, pytest.raises(KeyRefusedError, match="there is no access key: give one"):
        client.topics()
    for name, says in (("reader", "check signature failed"), ("nobody", "check signature failed")):
        with secured.client(secured.place(name, "guessed"), LONG_S) as client, pytest.raises(KeyRefusedError, match=says):
            client.route("orders")


def test_certificates_are_checked_by_both(secured: Secured, place: KeyPlace, tmp_path: Path) -> None:
    other, private = certificates.write(tmp_path, 9)
    wrong: list[tuple[Tls | None, str]] = [
        (Tls(str(other)), "signed by no authority of"),
        (Tls(str(secured.ca), str(other), str(private)), "the server refuses TLS with client certificate"),
        (None, "this port takes TLS only"),
    ]
    for tls, says in wrong:
        with Client(secured.nameserver, retry_s=LONG_S, tls=tls, key=place) as one, pytest.raises(TlsError, match=says):
            one.topics()


def test_a_client_certificate_is_accepted(secured: Secured, place: KeyPlace) -> None:
    folder = secured.node.folder / "client"
    tls = Tls(str(secured.ca), str(folder / "certificate.pem"), str(folder / "key.pem"))
    with Client(secured.nameserver, retry_s=60, tls=tls, key=place) as client:
        assert read(client, "orders") == [1]


def test_a_key_is_changed_in_the_file_and_then_at_the_node(secured: Secured) -> None:
    secured.user("changing", "first")
    for resource in ("Topic:orders", "Group:TOOLS_CONSUMER"):
        secured.allow("changing", resource, "Sub")
    with secured.client(secured.place("changing", "first")) as client:
        assert read(client, "orders") == [1]
        for password in ("second", "third"):
            secured.place("changing", password)
            assert read(client, "orders") == [1]
            secured.password("changing", password)
            assert read(client, "orders") == [1]
    log = secured.node.text()
    assert not [secret for secret in ("second", "third", "wonder:land") if f"{secret}" in log]
