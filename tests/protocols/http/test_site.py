"""Requests of web pages: DNS rebinding, cross-site request forgery, and CORS."""

from __future__ import annotations

from typing import Any

import pytest

from protocols.hosts import Hosts
from protocols.http2.head import RequestHead
from tests.protocols.http.stage import PEER, Client, adapter, factory
from tests.protocols.http.test_application import Streams

POST = ("POST", "/v1/topics/t/messages")
PAGE = "https://shop.example"


def raw(host: str, method: str = "GET", target: str = "/v1/topics", more: str = "") -> bytes:
    return f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n{more}Content-Length: 0\r\n\r\n".encode()


def status(data: bytes, **options: Any) -> int:
    client = Client(lambda command: None, made=adapter(**options)).send(data)
    return client.answers()[0].status if client.output else 200 if client.commands else 0


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8080", "127.0.0.1:8080", "10.1.2.3", "[::1]:8080", "[fe80::1]", "headgate", "headgate:8080",
     "headgate.default.svc.cluster.local:8080", "node.internal", "HEADGATE.local.", ""],
)  # fmt: skip
def test_names_that_no_stranger_can_register_are_served(host: str) -> None:
    assert status(raw(host)) == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example"])
def test_a_name_that_a_page_can_point_here_is_421(host: str) -> None:
    assert status(raw(host)) == 421
    assert status(raw(host), hosts=["evil.example", "127.0.0.1.evil.example", "localhost.evil.example"]) == 200
    assert status(raw(host), hosts=["*"]) == 200


TARGETS = [
    ("http://localhost:8080/v1/topics", "evil.example", 200),
    ("HTTP://LOCALHOST/v1/topics", "evil.example", 200),
    ("http://[::1]:8080/v1/topics", "evil.example", 200),
    ("https://10.1.2.3/nothing?x=http://evil.example/", "evil.example", 404),
    ("http://evil.example/v1/topics", "localhost", 421),
    ("http://evil.example:8080/v1/topics", "localhost:8080", 421),
    ("http://evil.example?/v1/topics", "localhost", 421),
    ("http://evil.example", "localhost", 421),
    ("http://localhost@evil.example/v1/topics", "localhost", 400),
    ("http:///v1/topics", "localhost", 400),
    ("http://:8080/v1/topics", "localhost", 400),
    ("ftp://localhost/v1/topics", "localhost", 400),
    ("/nothing?x=http://evil.example/", "localhost", 404),
]


@pytest.mark.parametrize(("target", "host", "wanted"), TARGETS)
def test_the_authority_of_an_absolute_target_counts_and_host_is_ignored(target: str, host: str, wanted: int) -> None:
    """RFC 9112, 3.2.2; RFC 9110, 4.2.1 and 4.2.4: a target has a host, and no user information."""
    assert status(raw(host, target=target)) == wanted
    streams = Streams()
    streams.application = factory().open(streams, PEER, 0)
    fields = [(b":method", b"GET"), (b":path", target.encode()), (b":authority", host.encode())]
    streams.application.opened(1, RequestHead(fields), 0)
    streams.application.ended(1, 0)
    assert streams.status(1) == wanted if wanted != 200 else 1 not in streams.heads


def test_an_absolute_target_needs_one_host_field_all_the_same() -> None:
    """RFC 9112, 3.2."""
    assert status(b"GET http://localhost/v1/topics HTTP/1.1\r\n\r\n") == 400
    assert status(b"GET http://localhost/v1/topics HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n") == 400
    assert status(b"GET http://evil.example/v1/topics HTTP/1.0\r\n\r\n") == 421
    assert status(b"GET http://localhost/v1/topics HTTP/1.0\r\n\r\n") == 200


def test_a_page_of_the_targets_own_host_may_send() -> None:
    target, more = "http://localhost:8080/v1/topics/t/messages", "Origin: http://localhost:8080\r\n"
    assert status(raw("evil.example", "POST", target, more)) == 200
    assert status(raw("localhost:8080", "POST", target.replace("localhost", "127.0.0.1"), more)) == 403


def test_the_advertised_name_is_served() -> None:
    assert Hosts((), "mq.shop.example").knows(b"MQ.shop.example:443")
    assert not Hosts((), "mq.shop.example").knows(b"shop.example")


def test_streams_of_http2_are_judged_alike() -> None:
    streams = Streams()
    streams.application = factory().open(streams, PEER, 0)
    fields = [(b":method", b"GET"), (b":path", b"/v1/topics"), (b":authority", b"evil.example")]
    streams.application.opened(1, RequestHead(fields), 0)
    streams.application.ended(1, 0)
    assert streams.status(1) == 421


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ("", 201),
        ("Content-Type: application/x-www-form-urlencoded\r\nUser-Agent: curl/8.5\r\n", 201),
        (f"Origin: {PAGE}\r\n", 403),
        ("Origin: null\r\n", 403),
        ("Origin: http://localhost\r\n", 201),
        ("Origin: http://localhost:3000\r\n", 403),
        ("Sec-Fetch-Site: cross-site\r\n", 403),
        ("Sec-Fetch-Site: same-site\r\n", 403),
        ("Sec-Fetch-Site: same-origin\r\n", 201),
        ("Sec-Fetch-Site: none\r\n", 201),
        ("User-Agent: Mozilla/5.0\r\nContent-Type: text/plain\r\n", 403),
        ("User-Agent: Mozilla/5.0\r\nContent-Type: multipart/form-data; boundary=x\r\n", 403),
        ("User-Agent: Mozilla/5.0\r\n", 403),
        ("User-Agent: Mozilla/5.0\r\nContent-Type: application/json\r\n", 201),
        ("Origin: sender.example\r\n", 201),
    ],
)
def test_pages_of_other_sites_may_not_send(more: str, wanted: int) -> None:
    client = Client().send(raw("localhost", *POST, more))
    assert [answer.status for answer in client.answers()] == [wanted]
    assert bool([command for command in client.commands if type(command).__name__ == "Send"]) is (wanted == 201)


@pytest.mark.parametrize(
    "target", ["/v1/groups/g/topics/t:receive", "/v1/groups/g/topics/t:ack", "/ce/t", "/v1/topics/t/messages:batch"]
)
def test_every_unsafe_path_is_guarded(target: str) -> None:
    assert status(raw("localhost", "POST", target, f"Origin: {PAGE}\r\n")) == 403


def test_listed_origins_may_send_and_read() -> None:
    client = Client(made=adapter(origins=[PAGE])).send(raw("localhost", *POST, f"Origin: {PAGE}\r\n"))
    (answer,) = client.answers()
    assert (answer.status, answer.field("access-control-allow-origin"), answer.field("vary")) == (201, PAGE, "origin")
    other = Client(made=adapter(origins=[PAGE])).send(raw("localhost", more="Origin: https://other.example\r\n"))
    assert not other.answers() or other.answers()[0].field("access-control-allow-origin") is None


@pytest.mark.parametrize("target", ["/v1/topics/t/messages", "/ce/t", "/v1/groups/g/topics/t:receive"])
def test_a_preflight_of_a_listed_origin_is_answered(target: str) -> None:
    asks = "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type, mq-key\r\n"
    made = adapter(origins=[PAGE])
    (answer,) = Client(made=made).send(raw("localhost", "OPTIONS", target, f"Origin: {PAGE}\r\n{asks}")).answers()
    assert answer.status == 204
    assert answer.field("access-control-allow-origin") == PAGE
    assert "POST" in (answer.field("access-control-allow-methods") or "")
    assert answer.field("access-control-allow-headers") == "content-type, mq-key"
    (other,) = Client(made=made).send(raw("localhost", "OPTIONS", target, f"Origin: https://a.example\r\n{asks}")).answers()
    assert other.field("access-control-allow-origin") is None
    assert other.field("access-control-allow-methods") is None


def test_two_origins_are_refused() -> None:
    assert status(raw("localhost", *POST, f"Origin: {PAGE}\r\nOrigin: http://localhost\r\n")) == 400


def test_judged_hosts_are_bounded() -> None:
    hosts = Hosts((), "")
    for at in range(5_000):
        hosts.knows(b"h%d.example" % at)
    assert len(hosts._judged) <= 1_024
