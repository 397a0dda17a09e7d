"""Documents of subscriptions: what is taken, what is refused, and that secrets stay inside."""

from __future__ import annotations

from typing import Any

import pytest

from domain.subscription.document import decode, document, encode, parse
from domain.subscription.duration import milliseconds, text
from domain.subscription.filters import SubscriptionError
from domain.subscription.subscription import EventFormat, Payload, Scheme, SinkRetry

SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
GOOD: dict[str, Any] = {"source": "orders", "sink": "https://example.com/hook", "protocol": "HTTP"}


def test_everything_that_a_document_can_say() -> None:
    found = parse(
        {
            **GOOD, "source": "rooms/+/temp", "types": ["a"], "filters": [{"exact": {"type": "a"}}],
            "protocolsettings": {"headers": {"X-Key": "1"}, "method": "POST"},
            "sinkcredential": {"type": "standardwebhooks", "secret": SECRET, "previous": SECRET},
            "config": {
                "group": "g", "from": "first", "payload": "batched", "format": "protobuf", "batchMax": 5, "retry": 3,
                "backoffPolicy": "linear", "backoffDelay": "PT0.5S", "timeout": "PT2S", "retryAfterMax": "PT1M",
                "deadLetterTopic": "dead", "replyTopic": "replies", "concurrency": 2, "ordered": True, "ratePerMinute": 60,
                "verify": False,
            },
        },
        "id1", "user", 7,
    )  # fmt: skip
    assert (found.payload, found.format) == (Payload.BATCHED, EventFormat.PROTOBUF)
    assert document(found)["config"]["format"] == "protobuf"
    assert found.retry == SinkRetry(3, True, 500, 2_000, 60_000)
    assert found.headers == (("x-key", "1"),)
    assert found.credential is not None
    assert found.credential.scheme is Scheme.STANDARD_WEBHOOKS
    assert decode(encode(found)) == found


@pytest.mark.parametrize("source", ["#", "+", "+/temp", "+/+/#"])
def test_a_source_may_begin_with_a_wildcard(source: str) -> None:
    found = parse({**GOOD, "source": source})
    assert (found.source, found.wild) == (source, True)


def test_secrets_are_never_shown() -> None:
    for credential in (
        {"type": "standardwebhooks", "secret": SECRET},
        {"type": "bearer", "token": "very-secret"},
        {"type": "oauth2", "token_url": "https://a.example/t", "client_id": "me", "client_secret": "very-secret"},
        {"type": "mtls", "certificate": "very-secret", "key": "very-secret"},
    ):
        found = parse({**GOOD, "sinkcredential": credential}, "i")
        for shown in (repr(found), str(document(found))):
            assert "secret" not in shown.replace("client_secret", "")
            assert SECRET not in shown
            assert "sinkcredential" not in shown


@pytest.mark.parametrize(
    ("change", "member"),
    [
        ({"sink": None}, "sink"),
        ({"sink": "ftp://x"}, "sink"),
        ({"source": ""}, "source"),
        ({"source": "+x"}, "source"),
        ({"source": "#/x"}, "source"),
        ({"source": "/x"}, "source"),
        ({"source": "$SYS/#"}, "source"),
        ({"source": "a b"}, "source"),
        ({"source": "%RETRY%g"}, "source"),
        ({"protocol": "MQTT5"}, "protocol"),
        ({"unknown": 1}, "unknown"),
        ({"config": []}, "config"),
        ({"config": {"unknown": 1}}, "config.unknown"),
        ({"config": {"retry": -1}}, "config.retry"),
        ({"config": {"retry": True}}, "config.retry"),
        ({"config": {"backoffDelay": "1s"}}, "config.backoffDelay"),
        ({"config": {"timeout": "PT10M"}}, "config.timeout"),
        ({"config": {"payload": "xml"}}, "config.payload"),
        ({"config": {"payload": "structured", "format": "xml"}}, "config.format"),
        ({"config": {"payload": "batched", "format": "avro"}}, "config.format"),
        ({"config": {"format": "json"}}, "config.format"),
        ({"config": {"payload": "raw", "format": "avro"}}, "config.format"),
        ({"config": {"concurrency": 65}}, "config.concurrency"),
        ({"config": {"ordered": "yes"}}, "config.ordered"),
        ({"config": {"group": "a b"}}, "config.group"),
        ({"config": {"deadLetterTopic": "%DLQ%g"}}, "config.deadLetterTopic"),
        ({"types": [1]}, "types"),
        ({"filters": {}}, "filters"),
        ({"protocolsettings": {"method": "GET"}}, "protocolsettings.method"),
        ({"protocolsettings": {"headers": {"ce-id": "1"}}}, "protocolsettings.headers.ce-id"),
        ({"protocolsettings": {"headers": {"Host": "x"}}}, "protocolsettings.headers.Host"),
        ({"protocolsettings": {"headers": {"x": "a\r\nb: c"}}}, "protocolsettings.headers.x"),
        ({"protocolsettings": {"headers": {"a b": "c"}}}, "protocolsettings.headers.a b"),
        ({"sinkcredential": {"type": "basic"}}, "sinkcredential.type"),
        ({"sinkcredential": {"type": "bearer"}}, "sinkcredential.token"),
        ({"sinkcredential": {"type": "bearer", "token": "a\nb"}}, "sinkcredential.token"),
        ({"sinkcredential": {"type": "standardwebhooks", "secret": "short"}}, "sinkcredential.secret"),
        ({"sinkcredential": {"type": "bearer", "token": "a", "more": "b"}}, "sinkcredential.more"),
    ],
)
def test_what_is_refused_names_its_member(change: dict[str, Any], member: str) -> None:
    with pytest.raises(SubscriptionError) as error:
        parse({**GOOD, **change}, "i")
    assert error.value.member == member
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        ("PT1S", 1_000), ("PT0.5S", 500), ("PT0.0001S", 1), ("P1DT2H3M4S", 93_784_000), ("PT", -1), ("P", -1), ("P1M", -1),
        ("PT1.5M", -1), ("-PT1S", -1), ("1S", -1), ("PT1S ", -1), ("", -1),
    ],
)  # fmt: skip
def test_durations(written: str, ms: int) -> None:
    assert milliseconds(written) == ms
    if ms >= 0:
        assert milliseconds(text(ms)) == ms
