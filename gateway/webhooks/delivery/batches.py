"""Batches and chains of leased messages: messages that share a request, and requests that follow each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from domain.event import Leased
from domain.message import property as properties
from domain.message.record import Record
from domain.subscription.filters import Predicate
from domain.subscription.subscription import Payload, WebhookSubscription
from gateway.webhooks.delivery.request_format import BATCH_BYTES_MAX, attributes_of, event_of
from protocols.cloudevents.event import CloudEvent


class Item(NamedTuple):
    """One leased message to send."""

    leased: Leased
    record: Record
    event: CloudEvent


class Chain(NamedTuple):
    """Batches that are sent one after the other, each in a request of its own.

    key       partition key of an ordered subscription; None: the messages have no order
    batches   lists of at least one message
    """

    key: bytes | None
    batches: list[list[Item]]


def chains_of(
    messages: Sequence[Leased], wanted: Predicate | None, subscription: WebhookSubscription
) -> tuple[list[Chain], list[Leased]]:
    """(chains that may be sent in parallel; messages that do not match the filter `wanted`)."""
    unwanted: list[Leased] = []
    items: list[Item] = []
    for leased in messages:
        record = Record(leased.record)
        event = event_of(record)
        if wanted is not None and not wanted(attributes_of(event)):
            unwanted.append(leased)
        else:
            items.append(Item(leased, record, event))
    batched = subscription.payload is Payload.BATCHED
    if not subscription.ordered:
        return [Chain(None, [batch]) for batch in _batches(items, batched)], unwanted
    by_key: dict[bytes, list[Item]] = {}
    for item in items:
        by_key.setdefault(properties.find(item.record.properties, properties.SHARDING_KEY_START), []).append(item)
    # Messages without a key have no order: each is a chain of its own.
    chains = [Chain(None, [batch]) for batch in _batches(by_key.pop(b"", []), batched)]
    return [*chains, *(Chain(key, _batches(found, batched)) for key, found in by_key.items())], unwanted


def leased_of(batches: Sequence[Sequence[Item]]) -> list[Leased]:
    """The leases of all messages in `batches`."""
    return [item.leased for batch in batches for item in batch]


def _batches(items: Sequence[Item], batched: bool) -> list[list[Item]]:
    """One batch per message, or with `batched` batches of at most BATCH_BYTES_MAX and at least one message."""
    if not batched:
        return [[item] for item in items]
    out: list[list[Item]] = []
    size = 0
    for item in items:
        if not out or size + len(item.event.data) > BATCH_BYTES_MAX:
            out.append([])
            size = 0
        out[-1].append(item)
        size += len(item.event.data)
    return out
