"""The head of a request, as the applications get it."""

from __future__ import annotations

import pytest

from protocols.http2.head import Headers, RequestHead

PSEUDO: Headers = [(b":path", b"/ce/t"), (b":authority", b"Gate:8080"), (b":scheme", b"http"), (b":method", b"POST")]


def test_pseudo_header_fields_come_in_any_order() -> None:
    fields = [(b"content-type", b"text/plain"), (b"x", b""), (b"content-type", b"text/html")]
    head = RequestHead(PSEUDO + fields)
    assert (head.method, head.path, head.authority, head.protocol) == (b"POST", b"/ce/t", b"Gate:8080", b"")
    assert head.content_type == b"text/plain"
    assert head.fields == fields
    assert head.size == sum(len(name) + len(value) + 4 for name, value in PSEUDO + fields)


def test_a_head_may_be_empty() -> None:
    head = RequestHead([])
    assert (head.method, head.path, head.authority, head.content_type, head.fields, head.size) == (b"", b"", b"", b"", [], 0)


@pytest.mark.parametrize(("host", "kept"), [(b"gate:8080", False), (b"Gate:8080", False), (b"gate", True), (b"", True)])
def test_a_host_that_repeats_the_authority_is_left_out(host: bytes, kept: bool) -> None:
    """RFC 9113, 8.3.1: a client may send both, and only a Host that differs makes the request malformed."""
    fields = [(b"accept", b"*/*"), (b"host", host), (b"x", b"1")]
    assert RequestHead(PSEUDO + fields).fields == (fields if kept else [fields[0], fields[2]])


def test_a_host_without_an_authority_stays() -> None:
    fields = [(b":method", b"GET"), (b":path", b"/"), (b"host", b"gate")]
    assert RequestHead(fields).fields == [(b"host", b"gate")]
