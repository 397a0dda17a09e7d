"""The table of routes: pattern of the path -> the handler of each method. The root is one where `event_routes` has rules."""

from __future__ import annotations

from typing import Final

from protocols.http.description import openapi
from protocols.http.handler import Route
from protocols.http.handlers import (
    batch,
    events,
    find,
    groups,
    latest,
    pull,
    receive,
    send,
    settle,
    subscriptions,
    topics,
    transactions,
    users,
    webhook,
)
from protocols.http.streams import follow, lease, produce

ROUTES: Final = (
    Route("ce/{path…}", {b"POST": events.PostEvents, b"OPTIONS": webhook.WebhookHandshake}),
    Route("", {b"POST": events.PostRoutedEvents, b"OPTIONS": webhook.WebhookHandshake}),
    Route("v1/topics/{path…}:consume", {b"GET": follow.ConsumeTopic}),
    Route("v1/groups/{group}/topics/{topic}:consume", {b"GET": lease.ConsumeGroup}),
    Route("v1/topics/{path…}/messages:stream", {b"POST": produce.PostStream}),
    Route("v1/openapi.json", {b"GET": openapi.GetDescription}),
    Route("v1/docs", {b"GET": openapi.GetPage}),
    Route("v1/topics", {b"GET": topics.GetTopics}),
    Route("v1/topics/{topic}:recall", {b"POST": transactions.RecallDelayed}),
    Route(
        "v1/topics/{topic}",
        {b"GET": topics.GetTopic, b"PUT": topics.PutTopicDocument, b"DELETE": topics.RemoveTopic},
    ),
    Route("v1/topics/{topic}/queues", {b"GET": topics.GetQueues}),
    Route("v1/topics/{topic}/queues/{queue}", {b"GET": pull.PullMessages}),
    Route("v1/topics/{path…}/messages", {b"GET": find.FindMessages, b"POST": send.PostMessage}),
    Route("v1/topics/{path…}/messages:batch", {b"POST": batch.PostBatch}),
    Route("v1/topics/{path…}/messages:prepare", {b"POST": transactions.PrepareMessage}),
    Route("v1/topics/{topic}/transactions/{transaction}:commit", {b"POST": transactions.CommitTransaction}),
    Route("v1/topics/{topic}/transactions/{transaction}:rollback", {b"POST": transactions.RollBackTransaction}),
    Route("v1/groups", {b"GET": groups.GetGroups}),
    Route("v1/groups/{group}:redrive", {b"POST": groups.RedriveDeadLetters}),
    Route(
        "v1/groups/{group}",
        {b"GET": groups.GetGroup, b"PUT": groups.PutGroupDocument, b"DELETE": groups.RemoveGroup},
    ),
    Route("v1/groups/{group}/progress", {b"GET": groups.GetProgress}),
    Route("v1/groups/{group}/topics/{topic}:reset", {b"POST": groups.ResetGroup}),
    Route("v1/users", {b"GET": users.GetUsers}),
    Route(
        "v1/users/{user}",
        {b"GET": users.GetUser, b"POST": users.MakeUser, b"PATCH": users.ChangeUser, b"DELETE": users.RemoveUser},
    ),
    Route(
        "v1/users/{user}/oscore",
        {b"GET": users.GetContext, b"PUT": users.PutContext, b"DELETE": users.RemoveContext},
    ),
    Route(
        "v1/users/{user}/policies",
        {b"GET": users.GetPolicies, b"PUT": users.PutPolicy, b"DELETE": users.RemovePolicies},
    ),
    Route("v1/groups/{group}/topics/{topic}:receive", {b"POST": receive.ReceiveMessages}),
    Route("v1/groups/{group}/topics/{topic}:ack", {b"POST": settle.AckReceipts}),
    Route("v1/groups/{group}/topics/{topic}:nack", {b"POST": settle.NackReceipts}),
    Route("v1/groups/{group}/topics/{topic}:extend", {b"POST": settle.ExtendReceipts}),
    Route("subscriptions", {b"GET": subscriptions.GetSubscriptions, b"POST": subscriptions.MakeSubscription}),
    Route("subscriptions/{id}:pause", {b"POST": subscriptions.PauseSubscription}),
    Route("subscriptions/{id}:resume", {b"POST": subscriptions.ResumeSubscription}),
    Route("subscriptions/{id}:consent", {b"GET": subscriptions.GetConsent, b"POST": subscriptions.PostConsent}),
    Route("subscriptions/{id}:test", {b"POST": subscriptions.TestDelivery}),
    Route("subscriptions/{id}:redrive", {b"POST": subscriptions.RedriveSubscription}),
    Route("subscriptions/{id}:reset", {b"POST": subscriptions.ResetTo}),
    Route("subscriptions/{id}/attempts", {b"GET": subscriptions.GetAttempts}),
    Route(
        "subscriptions/{id}",
        {
            b"GET": subscriptions.GetSubscription,
            b"PUT": subscriptions.ReplaceSubscription,
            b"DELETE": subscriptions.RemoveSubscription,
        },
    ),
    Route("v1/latest/{path…}", {b"GET": latest.GetLatest, b"DELETE": latest.RemoveLatest}),
)
