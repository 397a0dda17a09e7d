"""A subscription: which messages go to which sink, and how (CloudEvents Subscriptions API 0.1-wip, contract section 7)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from domain.address import topic_of_path
from domain.limits import SECOND_NS

GROUP_PREFIX: Final = "webhook_"
"""Consumer group of a subscription that names none: this and its id."""
SINK_CHARS_MAX: Final = 2_048
FILTERS_MAX: Final = 32
"""Filters of one subscription, those inside others included."""
ATTEMPTS_MAX: Final = 1_000
"""Attempts of one subscription that are kept."""
SUBSCRIPTIONS_MAX: Final = 10_000
"""Subscriptions of one store group."""
WILD_TOPICS_MAX: Final = 256
"""Topics that a source which begins with a wildcard reads at most."""
CONCURRENCY_MAX: Final = 64
RETRIES_MAX: Final = 1_000
RETRY_MS_MAX: Final = 12 * 3600 * 1000
"""The longest delay of a retry: that of a lease."""
TIMEOUT_MS_MAX: Final = 120_000
CLAIM_NS: Final = 10 * SECOND_NS
"""How long a claim on a subscription holds without being renewed."""


class Payload(StrEnum):
    """Form of a delivery."""

    BINARY = "binary"
    STRUCTURED = "structured"
    BATCHED = "batched"
    RAW = "raw"


class EventFormat(StrEnum):
    """Event format of structured and batched deliveries. AVRO has no batches."""

    JSON = "json"
    PROTOBUF = "protobuf"
    AVRO = "avro"


class Status(StrEnum):
    """Status of a subscription.

    PENDING     the sink has not consented yet
    ACTIVE      it delivers
    PAUSED      a person has paused it
    SUSPENDED   the gateway has suspended it; the reason is in `WebhookSubscription.reason`
    """

    PENDING = "pending"
    ACTIVE = "active"
    PAUSED = "paused"
    SUSPENDED = "suspended"


@dataclass(frozen=True, slots=True)
class SinkRetry:
    """Retry policy for failed deliveries (the delivery policy of Knative).

    retries              tries after the first one; then the message is a dead letter
    linear               True: the delay grows by `delay_ms` with each try; False: it doubles
    delay_ms             delay before the first retry
    timeout_ms           longest time of one try, from its start to the end of the answer
    retry_after_max_ms   a Retry-After of the sink counts up to this
    """

    retries: int = 24
    linear: bool = False
    delay_ms: int = 1_000
    timeout_ms: int = 15_000
    retry_after_max_ms: int = 300_000


class Scheme(StrEnum):
    """Scheme by which a delivery is authenticated: `sinkcredential.type`."""

    STANDARD_WEBHOOKS = "standardwebhooks"
    BEARER = "bearer"
    OAUTH2 = "oauth2"
    MTLS = "mtls"


@dataclass(frozen=True, slots=True)
class Credential:
    """Credential by which a delivery is signed or sent. Never returned, logged or traced: `repr` shows the scheme alone.

    values   member -> value, as in `sinkcredential` of the contract: secret, previous; token; token_url, client_id,
             client_secret, scope; certificate, key
    """

    scheme: Scheme
    values: dict[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class WebhookSubscription:
    """One subscription, as it is stored.

    id                  made by the gateway
    source              a topic, or an MQTT path filter: `orders`, `rooms/+/temp`, `+/temp`, `#`
    sink                http or https URL
    types               types of events that are wanted; empty: all
    filters             filters in the form of the Subscriptions API, all of which have to hold
    headers             further header fields of each delivery
    credential          None: deliveries are not signed
    from_first          True: a new group begins at the first message that is kept
    payload             form of a delivery
    format              event format, for `structured` and `batched`
    batch_max           events of one request at most, for `batched`
    retry               when a failed delivery is tried again
    dead_letter_topic   "": the dead-letter topic of the group
    reply_topic         where the event in an answer is published; "": answers are not published
    concurrency         requests under way at a time
    ordered             True: one request under way for each partition key, in the order of the messages
    rate_per_minute     deliveries a minute at most; 0: no bound
    verify              True: the sink has to consent by the handshake of CloudEvents' WebHook specification
    user, host          the principal that made it, and its address; "": access is not controlled
    status, reason      whether it delivers, and why not
    version             grows with each change
    created_ms          epoch ms
    consent_key         proves a consent that the sink sends to the callback URL; never returned, logged or traced
    consented_ms        epoch ms of the last one; 0: there was none
    granted_rate        deliveries a minute that it granted; 0: no bound
    """

    id: str
    source: str
    sink: str
    types: tuple[str, ...] = ()
    filters: tuple[dict[str, object], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    credential: Credential | None = None
    group: str = ""
    from_first: bool = False
    payload: Payload = Payload.BINARY
    format: EventFormat = EventFormat.JSON
    batch_max: int = 32
    retry: SinkRetry = SinkRetry()
    dead_letter_topic: str = ""
    reply_topic: str = ""
    concurrency: int = 8
    ordered: bool = False
    rate_per_minute: int = 0
    verify: bool = True
    user: str = ""
    host: str = ""
    status: Status = Status.ACTIVE
    reason: str = ""
    version: int = 1
    created_ms: int = 0
    consent_key: str = field(default="", repr=False)
    consented_ms: int = 0
    granted_rate: int = 0

    @property
    def wild(self) -> bool:
        """True: the source begins with a wildcard, and reads several topics."""
        return self.source[:1] in ("+", "#")

    @property
    def topic(self) -> str:
        """The one topic that it reads, where it is not `wild`."""
        return topic_of_path(self.source)


def granted_rate(value: str) -> int:
    """The value of WebHook-Allowed-Rate -> requests a minute, from 1 on; 0: no bound, for `*` and for what is no number."""
    return max(1, int(value)) if value.isascii() and value.isdigit() and len(value) < 10 else 0
