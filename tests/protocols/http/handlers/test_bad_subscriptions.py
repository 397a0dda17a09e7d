"""Subscriptions that are none: refused with the member that is wrong, counted, and without a secret in the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.domain.subscription.test_sink import SPELLINGS
from tests.protocols.http.streams.visit import VERSIONS, Visit, furnished

SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
GOOD = {
    "source": "T", "sink": "https://example.com/", "protocol": "HTTP",
    "sinkcredential": {"type": "standardwebhooks", "secret": SECRET},
}  # fmt: skip
BAD: list[tuple[dict[str, Any], str]] = [
    ({"sink": "file:///etc/passwd"}, "sink"),
    ({"sink": "https://user:password@example.com/"}, "sink"),
    ({"filters": [{"regex": {"type": "x"}}]}, "filters[0].regex"),
    ({"filters": [{"exact": {}}]}, "filters[0].exact"),
    ({"filters": [{}]}, "filters[0]"),
    ({"filters": [{"all": []}]}, "filters[0].all"),
    ({"unknown": 1}, "unknown"),
    ({"config": {"unknown": 1}}, "config.unknown"),
    ({"protocol": "KAFKA"}, "protocol"),
    ({"sinkcredential": {"type": "standardwebhooks", "secret": SECRET, "more": "x"}}, "sinkcredential.more"),
    ({"sinkcredential": {"type": "standardwebhooks", "secret": SECRET[:-1]}}, "sinkcredential.secret"),
]


def refusal(version: str, method: str, target: str, body: bytes) -> tuple[int, dict[str, Any], list[str]]:
    """Send a subscription -> (status, problem document, words that were counted)."""
    visit = Visit(furnished(1), version)
    reply = visit.ask(method, target, {"Content-Type": "application/json"}, body)
    return reply.status, reply.json(), visit.refused


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("method", "target"), [("POST", "/subscriptions"), ("PUT", "/subscriptions/one")])
@pytest.mark.parametrize(("change", "member"), BAD, ids=[member for _, member in BAD])
def test_a_bad_subscription_is_refused_and_counted(
    version: str, method: str, target: str, change: dict[str, Any], member: str
) -> None:
    status, told, counted = refusal(version, method, target, json.dumps({**GOOD, **change}).encode())
    assert (status, told["code"], counted) == (400, "argument-illegal", ["argument-illegal"])
    assert told["member"] == member
    assert member in told["detail"]
    assert SECRET[:-1] not in json.dumps(told)
    assert "password" not in json.dumps(told)


@pytest.mark.parametrize("sink", SPELLINGS)
def test_every_spelling_of_an_address_is_refused_and_counted(sink: str) -> None:
    status, told, counted = refusal("1.1", "POST", "/subscriptions", json.dumps({**GOOD, "sink": sink}).encode())
    assert (status, told["code"], told["member"], counted) == (400, "argument-illegal", "sink", ["argument-illegal"])


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b'{"source":"T"}', b"[" * 100_000], ids=len)
def test_what_is_no_document_is_refused_and_counted(body: bytes) -> None:
    status, told, counted = refusal("1.1", "POST", "/subscriptions", body)
    assert (status, told["code"], counted) in (
        (400, "argument-illegal", ["argument-illegal"]),
        (413, "message-too-large", ["message-too-large"]),
    )
