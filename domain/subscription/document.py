"""A subscription as JSON: the document of the API, and the record that is stored, which has its secrets too."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from domain.address import is_derived_topic, is_group, is_topic, topic_of_path
from domain.filter.path_matching import is_filter
from domain.subscription.duration import milliseconds, text
from domain.subscription.filters import SubscriptionError, predicate
from domain.subscription.sink import sink
from domain.subscription.subscription import (
    CONCURRENCY_MAX,
    GROUP_PREFIX,
    RETRIES_MAX,
    RETRY_MS_MAX,
    TIMEOUT_MS_MAX,
    Credential,
    EventFormat,
    Payload,
    Scheme,
    SinkRetry,
    Status,
    WebhookSubscription,
)

MEMBERS: Final = frozenset(
    ("id", "source", "types", "config", "filters", "sink", "sinkcredential", "protocol", "protocolsettings", "status", "reason")
)
CONFIG: Final = frozenset(
    (
        "group", "from", "payload", "format", "batchMax", "retry", "backoffPolicy", "backoffDelay", "timeout", "retryAfterMax",
        "deadLetterTopic", "replyTopic", "concurrency", "ordered", "ratePerMinute", "verify",
    )
)  # fmt: skip
TYPES_MAX: Final = 64
HEADERS_MAX: Final = 32
BATCH_MAX: Final = 32
RATE_MAX: Final = 1_000_000
SECRET_CHARS_MAX: Final = 16_384
_CREDENTIALS: Final[Mapping[Scheme, tuple[frozenset[str], frozenset[str]]]] = {
    Scheme.STANDARD_WEBHOOKS: (frozenset({"secret"}), frozenset({"previous"})),
    Scheme.BEARER: (frozenset({"token"}), frozenset()),
    Scheme.OAUTH2: (frozenset({"token_url", "client_id", "client_secret"}), frozenset({"scope"})),
    Scheme.MTLS: (frozenset({"certificate", "key"}), frozenset()),
}
"""Members of `sinkcredential` besides its type: required ones, optional ones."""
_SECRET: Final = re.compile(r"whsec_[A-Za-z0-9+/]{32,88}={0,2}")
_FIELD: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_FIELD_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_OWN_FIELDS: Final = frozenset(
    (
        "host", "content-length", "content-type", "transfer-encoding", "connection", "upgrade", "te", "trailer",
        "authorization", "cookie", "expect", "proxy-authorization", "keep-alive",
    )
)  # fmt: skip
"""Header fields that a subscription may not set, besides `ce-`, `webhook-` and `mq-`."""


def parse(found: object, identity: str = "", user: str = "", now_ms: int = 0) -> WebhookSubscription:
    """The document of a request -> a subscription with this id, principal and time. Raises SubscriptionError."""
    if not isinstance(found, Mapping):
        raise SubscriptionError("subscription", "is a JSON object")
    unknown = next((str(name) for name in found if name not in MEMBERS), None)
    if unknown is not None:
        raise SubscriptionError(unknown[:100], "this member is unknown")
    if found.get("protocol", "HTTP") != "HTTP":
        raise SubscriptionError("protocol", "is HTTP; no other one is supported")
    url = _text(found, "sink")
    sink(url)
    config = _object(found, "config")
    unknown = next((str(name) for name in config if name not in CONFIG), None)
    if unknown is not None:
        raise SubscriptionError(f"config.{unknown}"[:100], "this member is unknown")
    filters = found.get("filters", [])
    types = _types(found.get("types", []))
    predicate(filters, types)
    assert isinstance(filters, list)
    payload = Payload(_choice(config, "payload", [each.value for each in Payload], Payload.BINARY.value))
    return WebhookSubscription(
        id=identity,
        source=_source(found),
        sink=url,
        types=types,
        filters=tuple(filters),
        headers=_headers(_object(found, "protocolsettings")),
        credential=credential(found.get("sinkcredential")),
        group=_group(config) or GROUP_PREFIX + identity,
        from_first=_choice(config, "from", ["first", "last"], "last") == "first",
        payload=payload,
        format=_format(config, payload),
        batch_max=_number(config, "batchMax", 1, BATCH_MAX, BATCH_MAX),
        retry=_retry(config),
        dead_letter_topic=_topic(config, "deadLetterTopic"),
        reply_topic=_topic(config, "replyTopic"),
        concurrency=_number(config, "concurrency", 1, CONCURRENCY_MAX, 8),
        ordered=_flag(config, "ordered", False),
        rate_per_minute=_number(config, "ratePerMinute", 0, RATE_MAX, 0),
        verify=_flag(config, "verify", True),
        user=user,
        created_ms=now_ms,
    )


def _source(found: Mapping[str, object]) -> str:
    source = _text(found, "source")
    first = source.partition("/")[0]
    if not is_filter(source) or (first not in ("+", "#") and (not is_topic(first) or topic_of_path(source) != first)):
        raise SubscriptionError("source", "is a topic or a path filter: orders, rooms/+/temp, +/temp, #")
    return source


def _types(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > TYPES_MAX or not all(isinstance(each, str) and each for each in value):
        raise SubscriptionError("types", f"is an array of at most {TYPES_MAX} types of events")
    return tuple(value)


def _headers(settings: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    unknown = next((str(name) for name in settings if name not in ("headers", "method")), None)
    if unknown is not None:
        raise SubscriptionError(f"protocolsettings.{unknown}"[:100], "this member is unknown")
    if settings.get("method", "POST") != "POST":
        raise SubscriptionError("protocolsettings.method", "is POST, as the WebHook specification says")
    found = settings.get("headers", {})
    if not isinstance(found, Mapping) or len(found) > HEADERS_MAX:
        raise SubscriptionError("protocolsettings.headers", f"is an object with at most {HEADERS_MAX} header fields")
    out: list[tuple[str, str]] = []
    for name, value in found.items():
        member = f"protocolsettings.headers.{name}"[:100]
        if not isinstance(name, str) or _FIELD.fullmatch(name) is None:
            raise SubscriptionError(member, "is no name of a header field")
        if name.lower() in _OWN_FIELDS or name.lower().startswith(("ce-", "webhook-", "mq-")):
            raise SubscriptionError(member, "this header field is set by the gateway")
        if not isinstance(value, str) or len(value) > 1_024 or _FIELD_VALUE.fullmatch(value) is None:
            raise SubscriptionError(member, "is a value of at most 1024 printable ASCII characters")
        out.append((name.lower(), value))
    return tuple(out)


def credential(found: object) -> Credential | None:
    """`sinkcredential` of a document. Raises SubscriptionError, whose text has no secret."""
    if found is None:
        return None
    if not isinstance(found, Mapping) or found.get("type") not in [each.value for each in Scheme]:
        kinds = ", ".join(each.value for each in Scheme)
        raise SubscriptionError("sinkcredential.type", f"is one of {kinds}")
    scheme = Scheme(str(found["type"]))
    required, optional = _CREDENTIALS[scheme]
    values: dict[str, str] = {}
    for name, value in found.items():
        if name == "type":
            continue
        if name not in required | optional:
            raise SubscriptionError(f"sinkcredential.{name}"[:100], "this member is unknown")
        if not isinstance(value, str) or not 0 < len(value) <= SECRET_CHARS_MAX:
            raise SubscriptionError(f"sinkcredential.{name}", "is a string")
        values[name] = value
    missing = sorted(required - values.keys())
    if missing:
        raise SubscriptionError(f"sinkcredential.{missing[0]}", "is required")
    if scheme is Scheme.STANDARD_WEBHOOKS:
        for name, value in values.items():
            if _SECRET.fullmatch(value) is None:
                raise SubscriptionError(f"sinkcredential.{name}", "is whsec_ and 24 to 64 bytes in base64")
    elif scheme is Scheme.OAUTH2:
        sink(values["token_url"])
    elif scheme is Scheme.BEARER and _FIELD_VALUE.fullmatch(values["token"]) is None:
        raise SubscriptionError("sinkcredential.token", "has printable ASCII characters only")
    return Credential(scheme, values)


def _group(config: Mapping[str, object]) -> str:
    group = config.get("group", "")
    if not isinstance(group, str) or (group and not is_group(group)):
        raise SubscriptionError("config.group", "is the name of a consumer group")
    return group


def _topic(config: Mapping[str, object], name: str) -> str:
    topic = config.get(name, "")
    if not isinstance(topic, str) or (topic and (not is_topic(topic) or is_derived_topic(topic))):
        raise SubscriptionError(f"config.{name}", "is a topic")
    return topic


def _format(config: Mapping[str, object], payload: Payload) -> EventFormat:
    found = EventFormat(_choice(config, "format", [each.value for each in EventFormat], EventFormat.JSON.value))
    if "format" in config and payload not in (Payload.STRUCTURED, Payload.BATCHED):
        raise SubscriptionError("config.format", "is for the payloads structured and batched")
    if found is EventFormat.AVRO and payload is Payload.BATCHED:
        raise SubscriptionError("config.format", "is json or protobuf for the payload batched: Avro has no batches")
    return found


def _retry(config: Mapping[str, object]) -> SinkRetry:
    usual = SinkRetry()
    return SinkRetry(
        _number(config, "retry", 0, RETRIES_MAX, usual.retries),
        _choice(config, "backoffPolicy", ["exponential", "linear"], "exponential") == "linear",
        _duration(config, "backoffDelay", 10, RETRY_MS_MAX, usual.delay_ms),
        _duration(config, "timeout", 100, TIMEOUT_MS_MAX, usual.timeout_ms),
        _duration(config, "retryAfterMax", 0, RETRY_MS_MAX, usual.retry_after_max_ms),
    )


def _object(found: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = found.get(name, {})
    if not isinstance(value, Mapping):
        raise SubscriptionError(name, "is a JSON object")
    return value


def _text(found: Mapping[str, object], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str) or not value:
        raise SubscriptionError(name, "is required, and a string")
    return value


def _number(config: Mapping[str, object], name: str, least: int, most: int, usual: int) -> int:
    value = config.get(name, usual)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise SubscriptionError(f"config.{name}", f"is a whole number from {least} to {most}")
    return value


def _flag(config: Mapping[str, object], name: str, usual: bool) -> bool:
    value = config.get(name, usual)
    if not isinstance(value, bool):
        raise SubscriptionError(f"config.{name}", "is true or false")
    return value


def _choice(config: Mapping[str, object], name: str, choices: list[str], usual: str) -> str:
    value = config.get(name, usual)
    if not isinstance(value, str) or value not in choices:
        raise SubscriptionError(f"config.{name}", f"is one of {', '.join(choices)}")
    return value


def _duration(config: Mapping[str, object], name: str, least: int, most: int, usual: int) -> int:
    value = config.get(name)
    if value is None:
        return usual
    ms = milliseconds(value) if isinstance(value, str) else -1
    if not least <= ms <= most:
        raise SubscriptionError(f"config.{name}", f"is a duration of ISO 8601 from {text(least)} to {text(most)}")
    return ms


def document(subscription: WebhookSubscription) -> dict[str, Any]:
    """The document of an answer. It has no secrets: of a credential only its type."""
    retry = subscription.retry
    config: dict[str, Any] = {
        "group": subscription.group,
        "from": "first" if subscription.from_first else "last",
        "payload": subscription.payload.value,
        "retry": retry.retries,
        "backoffPolicy": "linear" if retry.linear else "exponential",
        "backoffDelay": text(retry.delay_ms),
        "timeout": text(retry.timeout_ms),
        "retryAfterMax": text(retry.retry_after_max_ms),
        "concurrency": subscription.concurrency,
        "ordered": subscription.ordered,
        "verify": subscription.verify,
    }
    if subscription.payload in (Payload.STRUCTURED, Payload.BATCHED):
        config["format"] = subscription.format.value
    if subscription.payload is Payload.BATCHED:
        config["batchMax"] = subscription.batch_max
    if subscription.rate_per_minute:
        config["ratePerMinute"] = subscription.rate_per_minute
    if subscription.dead_letter_topic:
        config["deadLetterTopic"] = subscription.dead_letter_topic
    if subscription.reply_topic:
        config["replyTopic"] = subscription.reply_topic
    out: dict[str, Any] = {"id": subscription.id, "source": subscription.source}
    if subscription.types:
        out["types"] = list(subscription.types)
    out["config"] = config
    if subscription.filters:
        out["filters"] = list(subscription.filters)
    out["sink"] = subscription.sink
    out["protocol"] = "HTTP"
    if subscription.headers:
        out["protocolsettings"] = {"headers": dict(subscription.headers)}
    out["status"] = subscription.status.value
    if subscription.reason:
        out["reason"] = subscription.reason
    return out


def encode(subscription: WebhookSubscription) -> bytes:
    """The record of a subscription: its document, its secrets, and what a client does not set."""
    found = document(subscription)
    if subscription.credential is not None:
        found["sinkcredential"] = {"type": subscription.credential.scheme.value, **subscription.credential.values}
    own = {
        "user": subscription.user,
        "host": subscription.host,
        "version": subscription.version,
        "created_ms": subscription.created_ms,
        "consent": [subscription.consent_key, subscription.consented_ms, subscription.granted_rate],
    }
    return json.dumps({"subscription": found, "own": own}, separators=(",", ":")).encode()


def decode(record: bytes) -> WebhookSubscription:
    """The record again. Raises SubscriptionError and ValueError for bytes that are none."""
    found = json.loads(record)
    own, stored = found["own"], found["subscription"]
    parsed = parse(stored, str(stored["id"]), str(own["user"]), int(own["created_ms"]))
    status, reason = Status(stored["status"]), str(stored.get("reason", ""))
    key, consented_ms, rate = own.get("consent", ["", 0, 0])
    return replace(
        parsed, status=status, reason=reason, host=str(own["host"]), version=int(own["version"]), consent_key=str(key),
        consented_ms=int(consented_ms), granted_rate=int(rate),
    )  # fmt: skip
