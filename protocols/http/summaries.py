"""What each handler does, for the description of the API: name of the class -> text, whose first sentence is the summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SUMMARIES: Final[Mapping[str, str]] = {
    "PostEvents": (
        "Store events: 204 when they are stored with the durability of the topic. `Prefer: return=representation` is "
        "answered 200 with the place of the event, `Prefer: respond-async` 202 as soon as they are accepted. A batch is "
        "answered 200 with one result for each event, 207 when some were refused, an error when all were. Each event is "
        "stored on its own."
    ),
    "PostRoutedEvents": (
        "Store events in the topics that rules of the setting `event_routes` choose by source and type; 404 when none fits. "
        "Otherwise as under `/ce`."
    ),
    "ConsumeTopic": (
        "A stream of every message of a topic, or of one path in it. Parameters: `from` (`first`, `last`, a "
        "cursor, or with `queue` an offset; last), `queue` (all), `path` (a filter with `+` and `#`), `tag` or "
        "`filter`, `format`, `text`, `credit`. The field Last-Event-ID, a cursor, comes before `from`."
    ),
    "ConsumeGroup": (
        "A stream of leased messages. One that is not acknowledged when its lease ends is redelivered, to any "
        "member of the group. Parameters: `max` (1 to 1024, 32: messages in flight), `invisible_ms`, `tag` or "
        "`filter`, `queue`, `from` (`first` or `last`; first), `ordered`, as of `:receive`; `format`, `text`, `credit`."
    ),
    "PostStream": (
        "Messages, one a line, stored as they come: 200 with one result a line, while the request goes on. Members of a "
        "message as of `postBatch`, and `idempotencyKey`: a record that comes again with its key is stored once, and gets the "
        "result that it got first; another record with that key is refused in its place (422)."
    ),
    "GetDescription": "The API as an OpenAPI document, for generators of clients.",
    "GetPage": "The API as a page, with a line for curl for each call.",
    "GetTopics": (
        "Topics by name, each as `getTopic` has it. Parameters: `after` (begin after this name), `max` (1 to 1000, 1000). "
        "`next` is present when there are more: the `after` of the next request."
    ),
    "GetTopic": (
        "One topic: `name type queues durability retention_ms retention_bytes attributes`; 404 when it does not exist."
    ),
    "PutTopicDocument": (
        "Create a topic or change it: a JSON object with any of the members that `getTopic` has, except `name`. A member "
        "that is absent stays as it is. An attribute that is null is dropped. `retention_ms` 0: the default of the store; "
        "`retention_bytes` 0: no bound."
    ),
    "RemoveTopic": "DELETE: 204; the topic is deleted with its messages.",
    "GetQueues": "First offset (`min`) and next offset (`max`) of each queue of a topic.",
    "PullMessages": (
        '200 with `{"messages", "next", "min", "max", "status"}`; `next` is the next offset to read, also after one '
        "out of range. Parameters: `offset` (0), `max` (1 to 32, 32), `wait_ms` (to 30 s, 0), `tag` or `filter`. With"
        " `Accept: application/cloudevents-batch+json`, or `+protobuf`, the CloudEvents are sent as a batch, `next` "
        "in `mq-next-offset`."
    ),
    "FindMessages": (
        '200 with `{"messages"}`, newest first; an empty list when none is found. Parameters: `key` (one word of the '
        "message's key) or `id`, not both; `from`, `to` (store time: RFC 3339 or epoch milliseconds, both included), "
        "`max` (1 to 64, 32)."
    ),
    "PostMessage": "One message, whose body is the content: 201 with id, topic, queue and offset when it is stored.",
    "PostBatch": (
        "Several messages of one path, stored all or none: 200 with one result for each message. An element: `body` "
        "(base64) or `text`, and `key tag messageGroup properties deliverAt expiresAt delay_ms ttl_ms contentType "
        "retain`."
    ),
    "PrepareMessage": (
        "As a message is sent, but nobody sees it before its transaction is committed: 201 with `transaction`. The "
        "producer group is the topic, as with the gRPC SDKs: a producer of theirs is asked when nobody decides in time."
    ),
    "CommitTransaction": "`:commit`: consumers get the message.",
    "RollBackTransaction": "`:rollback`: nobody gets the message.",
    "RecallDelayed": (
        '`:recall`: a delayed message is not delivered. Content: `{"recall": "…"}`, as the answer to its sender has it.'
    ),
    "GetGroups": (
        "Groups by name. Parameters: `after` (begin after this name), `max` (1 to 1000, 1000). `next` is present when "
        "there are more: the `after` of the next request."
    ),
    "GetGroup": "One group: `name orderly consume broadcast retry_max retry_queues attributes`; 404 when it does not exist.",
    "PutGroupDocument": (
        "Create a group or change it: a JSON object with the members that `getGroup` has, except `name`. A member that is "
        "absent gets its default: `orderly` false, `consume` true, `broadcast` true, `retry_max` 16, `retry_queues` 1. "
        "Attributes that are absent stay; one that is null is dropped."
    ),
    "RemoveGroup": "DELETE: 204; the group is deleted with its positions and leases.",
    "GetProgress": (
        "How far a group is, queue by queue: `topic queue next position lag`, and `perSecond`. Parameter: `topic` (all)."
    ),
    "ResetGroup": (
        "`:reset?to=`: go on at the first message stored at or after an instant: RFC 3339, epoch milliseconds, or `end`."
    ),
    "RedriveDeadLetters": (
        "`:redrive`: dead letters of the group are delivered again, to this group alone. Parameter: `max` (1 to 10000, 1000). "
        "200 with `redriven`, their number. The next call goes on behind them."
    ),
    "GetUsers": "Users by name: `name super enabled`. Parameter: `part` (a part of the name).",
    "GetUser": "One user; 404 when it does not exist.",
    "MakeUser": (
        "POST: a new user, with `password` and, as it is, `super` (false) and `enabled` (true); 400 when there is one."
    ),
    "ChangeUser": "PATCH: change `password`, `super` or `enabled`; what is absent stays.",
    "RemoveUser": "DELETE: 204; the user is gone with its policies, and its connections are closed.",
    "GetContext": (
        "The OSCORE context of a user: `device_id node_id id_context algorithm`, never its secret; 404 when there is none."
    ),
    "PutContext": (
        "PUT: the OSCORE context of a user, in the place of the one that it has; all but `algorithm` in hexadecimal digits. "
        "`device_id` (Sender ID of the device), `node_id` (that of this node), `secret` (16 to 64 bytes), `salt` (none), "
        "`id_context` (none), `algorithm` (10, AES-CCM-16-64-128)."
    ),
    "RemoveContext": "DELETE: 204; the user has no OSCORE context any more.",
    "GetPolicies": "Policies of a user: `resource actions decision sources default`.",
    "PutPolicy": (
        "PUT: one policy, in the place of the one with the same resource and kind. `resource` (`Topic:orders`, "
        "`Group:*`), `actions` (Pub, Sub, Create, …), `decision` (Allow), `sources` (any), `default` (false)."
    ),
    "RemovePolicies": ("DELETE: the policies on `resource` (all). Parameters: `resource`, `default` (false: the custom ones)."),
    "ReceiveMessages": (
        "200 with messages, 204 when none arrived in time. Parameters: `max` (1 to 32, 1), `wait_ms` (to 30 s, 0), "
        "`invisible_ms` (10 ms to 12 h, 30 s), `tag` (`A || B`) or `filter` (SQL92 over properties), `queue`, `from` "
        "(`first` or `last`: where a group without a position begins; first), `ordered` (true: one at a time from each "
        "queue). With `max=1` and `Accept: application/octet-stream` the response is the bare body and `mq-` fields."
    ),
    "AckReceipts": "`:ack`: the message is acknowledged, and never redelivered to this group.",
    "NackReceipts": "`:nack`: the message is released; redelivered at once, or after `delay_ms`.",
    "ExtendReceipts": "`:extend`: the lease ends `invisible_ms` from now.",
    "GetSubscriptions": (
        "Subscriptions of the user by id. Parameters: `after`, `max` (1 to 1000, 1000). `next` is present when there are "
        "more: the `after` of the next request."
    ),
    "MakeSubscription": (
        "201 with Location. The sink gets what is sent after the answer; `config.from` = `first`: what is kept, too."
    ),
    "GetSubscription": "One subscription, without its credential.",
    "ReplaceSubscription": (
        "The whole document anew. Group, user and time stay; without `sinkcredential` there is none any more."
    ),
    "RemoveSubscription": "204. What has not been delivered is not delivered any more.",
    "PauseSubscription": "`:pause`: messages wait.",
    "ResumeSubscription": (
        "`:resume`: deliver again, after a pause or a suspension; a sink that has to consent is asked first."
    ),
    "GetConsent": ("A sink consents at the callback URL of the handshake, by a person with a browser. Parameter: `key`."),
    "PostConsent": "A sink consents at the callback URL of the handshake. Parameter: `key`. Field: WebHook-Allowed-Rate.",
    "TestDelivery": ("`:test`: one event of type `io.headgate.test` to the sink, outside the log; the answer has its attempt."),
    "GetAttempts": "Attempts, the newest first. Parameter: `max` (1 to 1000, 100).",
    "RedriveSubscription": (
        "`:redrive`: dead letters are delivered again, to this subscription alone. Parameter: `max` (1 to 10000, 1000)."
    ),
    "ResetTo": (
        "`:reset?to=`: go on at the first message stored at or after an instant: RFC 3339, epoch milliseconds, or `end`."
    ),
    "GetLatest": (
        "GET: 200 with the value as a bare body and `mq-` fields, 404 when the path has none. With `Accept: "
        "application/cloudevents+json` a value that is a CloudEvent is sent in structured mode, as with `+protobuf` "
        "and `+avro`."
    ),
    "RemoveLatest": "DELETE: 204; removes the latest value of the path. No message is stored.",
}
