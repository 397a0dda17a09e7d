"""Details of each handler in the description of the API, besides its own text: parameters, content, answers, examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

JSON: Final = "application/json"
_JSON_BATCH: Final = "application/cloudevents-batch+json"
_OCTETS: Final = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Operation:
    """One handler.

    tag         the chapter it stands in
    query       name -> (type of JSON Schema, description)
    fields      request header field -> description
    content     media type -> an example of the content; empty: there is none
    answers     status -> (media type, "" without content; an example)
    """

    tag: str
    query: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    content: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[int, tuple[str, Any]] = field(default_factory=dict)


_LINES: Final = "application/x-ndjson"
_STREAMING: Final = {
    "format": ("string", "ndjson or sse, instead of Accept"),
    "text": ("boolean", "bodies that are UTF-8 as text instead of body"),
    "credit": ("integer", "WebSocket: messages to send at first, to 100000"),
    "access_token": ("string", "instead of Authorization, for pages"),
}
_EMPTY: Final[Mapping[int, tuple[str, Any]]] = {204: ("", None)}
_MESSAGE: Final = {
    "id": "0A000001…", "topic": "orders", "path": "orders", "queue": 1, "offset": 7, "storedMs": 1795661973000,
    "properties": {"colour": "red"}, "body": "b25lIGJpY3ljbGU=",
}  # fmt: skip
_RECEIPTS: Final = {"receipts": ["7 1795661973000 30000 0 0 broker-a 1 7"]}
_RESULTS: Final = {"results": [{"receipt": "7 1795661973000 30000 0 0 broker-a 1 7", "ok": True}]}
_TOPIC: Final = {
    "name": "orders", "type": "NORMAL", "queues": 8, "durability": "flushed", "retention_ms": 0, "retention_bytes": 0,
    "attributes": {},
}  # fmt: skip
_GROUP: Final = {
    "name": "shop", "orderly": False, "consume": True, "broadcast": True, "retry_max": 16, "retry_queues": 1, "attributes": {},
}  # fmt: skip
_USER: Final = {"name": "anna", "super": False, "enabled": True}
_POLICY: Final = {"resource": "Topic:orders", "actions": ["Sub"], "decision": "Allow", "sources": [], "default": False}
_SUBSCRIPTION: Final = {
    "id": "0e4ac1f2eb737d2acd", "source": "orders", "config": {"group": "webhook_0e4ac1f2eb737d2acd", "retry": 24},
    "sink": "https://example.com/hook", "protocol": "HTTP", "status": "active",
}  # fmt: skip
_NEW_SUBSCRIPTION: Final = {"source": "orders", "sink": "https://example.com/hook", "protocol": "HTTP"}
_ATTEMPT: Final = {
    "at": "2026-11-26T03:00:26.868Z", "messageId": "E724EF73…", "messages": 1, "number": 1, "status": 204, "ms": 5,
    "outcome": "delivered",
}  # fmt: skip
_QUEUES: Final = {"queues": [{"queue": 0, "offset": 7}]}
_PAGE: Final = {"after": ("string", "begin after this name"), "max": ("integer", "at most so many, 1 to 1000")}
_SENDING: Final = {
    "mq-key": "keys for a search, separated by spaces",
    "mq-tag": "tag, for filters",
    "mq-message-group": "ordering key",
    "mq-properties": "user properties, a JSON object of texts, percent-encoded",
    "mq-deliver-at": "delivery time, RFC 3339 or epoch milliseconds",
    "mq-expires-at": "expiry, RFC 3339 or epoch milliseconds",
    "mq-retain": "true: it is the latest value of its path, too",
    "mq-queue": "number of the queue",
    "idempotency-key": "the message is stored once for each key",
}
_DELAYS: Final = {"delay_ms": ("integer", "delay of the delivery"), "ttl_ms": ("integer", "time to live")}
_FILTERS: Final = {"tag": ("string", "tags: A || B"), "filter": ("string", "SQL92 over properties")}
_TO: Final = {"to": ("string", "RFC 3339, epoch milliseconds, or end")}


def _json(example: Any, status: int = 200) -> Mapping[int, tuple[str, Any]]:
    return {status: (JSON, example)}


def _subscription(example: Any, status: int = 200, **more: Any) -> Operation:
    return Operation("Webhooks", answers=_json(example, status), **more)


_EVENTS: Final = Operation(
    "CloudEvents",
    fields={
        "mq-retain": _SENDING["mq-retain"],
        "idempotency-key": _SENDING["idempotency-key"],
        "prefer": "return=representation, or respond-async",
    },
    content={
        "application/cloudevents+json": {
            "specversion": "1.0",
            "id": "1",
            "source": "/shop",
            "type": "order.made",
            "data": {"bicycles": 1},
        },
        _JSON_BATCH: [{"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.made"}],
        "application/cloudevents+protobuf": "an event in the protobuf format",
        "application/cloudevents-batch+protobuf": "a CloudEventBatch in the protobuf format",
        "application/cloudevents+avro": "an event in the Avro format",
        _OCTETS: "the data, with the attributes in ce- fields",
    },
    answers={
        **_EMPTY,
        200: (JSON, {"id": "0A000001…", "queue": 1, "offset": 7}),
        202: ("", None),
        207: (JSON, {"results": []}),
    },
)

OPERATIONS: Final[Mapping[str, Operation]] = {
    "PostEvents": _EVENTS,
    "PostRoutedEvents": _EVENTS,
    "GetDescription": Operation("Description", answers=_json({"openapi": "3.1.0"})),
    "GetPage": Operation("Description", answers={200: ("text/html", "<!doctype html>…")}),
    "GetTopics": Operation("Topics", _PAGE, answers=_json({"topics": [_TOPIC]})),
    "GetTopic": Operation("Topics", answers=_json(_TOPIC)),
    "PutTopicDocument": Operation("Topics", content={JSON: {"queues": 4, "retention_ms": 3600000}}, answers=_EMPTY),
    "RemoveTopic": Operation("Topics", answers=_EMPTY),
    "GetQueues": Operation("Topics", answers=_json({"queues": [{"queue": 0, "min": 0, "max": 7}]})),
    "PullMessages": Operation(
        "Messages",
        {
            "offset": ("integer", "begin at this offset"),
            "max": ("integer", "messages, 1 to 32"),
            "wait_ms": ("integer", "wait for messages, to 30000"),
            **_FILTERS,
        },
        answers={
            200: (JSON, {"messages": [_MESSAGE], "next": 8, "min": 0, "max": 8, "status": "FOUND"}),
        },
    ),
    "FindMessages": Operation(
        "Messages",
        {
            "key": ("string", "one word of the key"),
            "id": ("string", "id of the message"),
            "from": ("string", "stored at or after"),
            "to": ("string", "stored at or before"),
            "max": ("integer", "1 to 64"),
        },
        answers=_json({"messages": [_MESSAGE]}),
    ),
    "PostMessage": Operation(
        "Messages",
        _DELAYS,
        _SENDING,
        {_OCTETS: "one bicycle"},
        _json({"topic": "orders", "id": "0A000001…", "queue": 1, "offset": 7}, 201),
    ),
    "PostBatch": Operation(
        "Messages",
        fields={"idempotency-key": _SENDING["idempotency-key"]},
        content={JSON: [{"text": "one"}, {"body": "dHdv", "key": "k"}], "application/x-ndjson": '{"text": "one"}\n'},
        answers=_json({"results": [{"id": "0A000001…", "queue": 1, "offset": 7}]}),
    ),
    "PrepareMessage": Operation(
        "Transactions", _DELAYS, _SENDING, {_OCTETS: "one bicycle"}, _json({"topic": "orders", "transaction": "0A000001…"}, 201)
    ),
    "CommitTransaction": Operation("Transactions", answers=_EMPTY),
    "RollBackTransaction": Operation("Transactions", answers=_EMPTY),
    "RecallDelayed": Operation("Messages", content={JSON: {"recall": "djEgb3JkZXJz…"}}, answers=_json({"id": "0A000001…"})),
    "GetGroups": Operation("Groups", _PAGE, answers=_json({"groups": [_GROUP]})),
    "GetGroup": Operation("Groups", answers=_json(_GROUP)),
    "PutGroupDocument": Operation("Groups", content={JSON: {"retry_max": 5}}, answers=_EMPTY),
    "RemoveGroup": Operation("Groups", answers=_EMPTY),
    "GetProgress": Operation(
        "Groups",
        {"topic": ("string", "one topic")},
        answers=_json(
            {"queues": [{"topic": "orders", "queue": 0, "next": 8, "position": 7, "lag": 1}], "lag": 1, "perSecond": 0.5}
        ),
    ),
    "ResetGroup": Operation("Groups", _TO, answers=_json(_QUEUES)),
    "RedriveDeadLetters": Operation("Groups", {"max": ("integer", "dead letters, 1 to 10000")}, answers=_json({"redriven": 3})),
    "GetUsers": Operation("Users", {"part": ("string", "a part of the name")}, answers=_json({"users": [_USER]})),
    "GetUser": Operation("Users", answers=_json(_USER)),
    "MakeUser": Operation("Users", content={JSON: {"password": "a long one"}}, answers=_EMPTY),
    "ChangeUser": Operation("Users", content={JSON: {"enabled": False}}, answers=_EMPTY),
    "RemoveUser": Operation("Users", answers=_EMPTY),
    "GetContext": Operation("Users", answers=_json({"device_id": "01", "node_id": "", "id_context": None, "algorithm": 10})),
    "PutContext": Operation(
        "Users",
        content={JSON: {"device_id": "01", "node_id": "", "secret": "000102030405060708090a0b0c0d0e0f"}},
        answers=_EMPTY,
    ),
    "RemoveContext": Operation("Users", answers=_EMPTY),
    "GetPolicies": Operation("Users", answers=_json({"policies": [_POLICY]})),
    "PutPolicy": Operation("Users", content={JSON: {"resource": "Topic:orders", "actions": ["Sub"]}}, answers=_EMPTY),
    "RemovePolicies": Operation(
        "Users",
        {"resource": ("string", "the policies on it; none: all"), "default": ("boolean", "the default policies")},
        answers=_EMPTY,
    ),
    "ReceiveMessages": Operation(
        "Messages",
        {
            "max": ("integer", "messages, 1 to 32"),
            "wait_ms": ("integer", "wait for messages, to 30000"),
            "invisible_ms": ("integer", "length of the leases, 10 to 43200000"),
            **_FILTERS,
            "queue": ("integer", "one queue"),
            "from": ("string", "where a new group begins: first or last"),
            "ordered": ("boolean", "keep the order of each ordering key"),
        },
        answers={
            200: (JSON, {"messages": [{"receipt": _RECEIPTS["receipts"][0], "attempt": 1, **_MESSAGE}]}),
            204: ("", None),
        },
    ),
    "ConsumeTopic": Operation(
        "Streams",
        {
            "from": ("string", "first, last, a cursor, or with queue an offset"),
            "queue": ("integer", "one queue"),
            "path": ("string", "a filter over paths, with + and #"),
            **_FILTERS,
            **_STREAMING,
        },
        {"last-event-id": "go on behind this event; before `from`"},
        answers={200: (_LINES, '{"id": "0A000001…", "queue": 1, "offset": 7, "text": "one", "cursor": "cLaRSdK7p…"}\n')},
    ),
    "ConsumeGroup": Operation(
        "Streams",
        {
            "max": ("integer", "messages that are leased and not settled, 1 to 1024"),
            "invisible_ms": ("integer", "length of the leases, 10 to 43200000"),
            **_FILTERS,
            "queue": ("integer", "one queue"),
            "from": ("string", "where a new group begins: first or last"),
            "ordered": ("boolean", "keep the order of each ordering key"),
            **_STREAMING,
        },
        answers={200: (_LINES, '{"receipt": "7 1795661973000 30000 0 0 broker-a 1 7", "attempt": 1, "text": "one"}\n')},
    ),
    "PostStream": Operation(
        "Streams",
        content={_LINES: '{"text": "one", "idempotencyKey": "upload-7/0"}\n{"body": "dHdv", "key": "k"}\n'},
        answers={200: (_LINES, '{"seq": 0, "topic": "orders", "id": "0A000001…", "queue": 1, "offset": 7}\n')},
    ),
    "AckReceipts": Operation("Messages", content={JSON: _RECEIPTS}, answers=_json(_RESULTS)),
    "NackReceipts": Operation("Messages", content={JSON: {**_RECEIPTS, "delay_ms": 1000}}, answers=_json(_RESULTS)),
    "ExtendReceipts": Operation("Messages", content={JSON: {**_RECEIPTS, "invisible_ms": 60000}}, answers=_json(_RESULTS)),
    "GetSubscriptions": _subscription({"subscriptions": [_SUBSCRIPTION]}, query=_PAGE),
    "MakeSubscription": _subscription(_SUBSCRIPTION, 201, content={JSON: _NEW_SUBSCRIPTION}),
    "GetSubscription": _subscription(_SUBSCRIPTION),
    "ReplaceSubscription": _subscription(_SUBSCRIPTION, content={JSON: _NEW_SUBSCRIPTION}),
    "RemoveSubscription": Operation("Webhooks", answers=_EMPTY),
    "PauseSubscription": _subscription({**_SUBSCRIPTION, "status": "paused", "reason": "paused by request"}),
    "ResumeSubscription": _subscription(_SUBSCRIPTION),
    "GetConsent": Operation("Webhooks", {"key": ("string", "of the callback URL")}, answers=_EMPTY),
    "PostConsent": Operation(
        "Webhooks",
        {"key": ("string", "of the callback URL")},
        {"webhook-allowed-rate": "deliveries a minute, or *"},
        answers=_EMPTY,
    ),
    "TestDelivery": _subscription({"breaker": "closed", "attempts": [_ATTEMPT]}),
    "GetAttempts": _subscription(
        {"breaker": "closed", "attempts": [_ATTEMPT], "lag": 3}, query={"max": ("integer", "attempts, 1 to 1000")}
    ),
    "RedriveSubscription": _subscription({"redriven": 3}, query={"max": ("integer", "dead letters, 1 to 10000")}),
    "ResetTo": _subscription(_QUEUES, query=_TO),
    "GetLatest": Operation("Latest values", answers={200: (_OCTETS, "21.5")}),
    "RemoveLatest": Operation("Latest values", answers=_EMPTY),
}
"""Name of a handler -> what is said of it. A test looks that no handler of the table of routes is missing."""
