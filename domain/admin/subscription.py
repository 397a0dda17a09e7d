"""Subscriptions of webhooks as clients make and change them, the claims of those that deliver, and the answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from domain.command import Receive, TicketedCommand
from domain.event import TicketedEvent
from domain.message.receipt import Receipt


@dataclass(slots=True)
class PutSubscription(TicketedCommand):
    """Make a subscription, or replace one -> SubscriptionFound.

    document   JSON of the Subscriptions API (domain.subscription.document)
    source     its topic or path filter, for the rights that it needs
    group      its group; "": one is made
    topics     topics that it publishes to: replies, dead letters
    id         the one that is replaced, which keeps its group, user, status and time; "": a new one

    Its topic and its group are made when they do not exist, and the group's position is set before the answer: what is sent
    after it is delivered. Errors: ARGUMENT_ILLEGAL, TOPIC_NOT_FOUND, NOT_ALLOWED, QUOTA, SUBSCRIPTION_NOT_FOUND.
    """

    document: bytes
    source: str
    group: str = ""
    topics: list[str] = field(default_factory=list)
    id: str = ""


@dataclass(slots=True)
class QuerySubscriptions(TicketedCommand):
    """Subscriptions by id, those that the principal may read -> SubscriptionList.

    id      one; "": all
    after   those behind this id; "": from the first

    Errors: SUBSCRIPTION_NOT_FOUND (`id`).
    """

    id: str = ""
    after: str = ""
    limit: int = 100


@dataclass(slots=True)
class DeleteSubscription(TicketedCommand):
    """Delete a subscription and the group that was made for it -> Done. Errors: SUBSCRIPTION_NOT_FOUND."""

    id: str


@dataclass(slots=True)
class ChangeStatus(TicketedCommand):
    """Pause, resume or suspend -> SubscriptionFound. Errors: SUBSCRIPTION_NOT_FOUND.

    status   a value of domain.subscription.subscription.Status
    epoch    of the claim, for who delivers; -1: a person changes it
    version  of the subscription that this is about, for who delivers

    Of an owner that was replaced, and about a subscription that has changed since, it changes nothing.
    """

    id: str
    status: str
    reason: str = ""
    epoch: int = -1
    version: int = 0


@dataclass(slots=True)
class GrantConsent(TicketedCommand):
    """A sink consents at the callback URL of the handshake -> Done. Errors: SUBSCRIPTION_NOT_FOUND, also for a wrong key.

    key    of that URL
    rate   deliveries a minute that it grants; 0: no bound
    """

    id: str
    key: str
    rate: int = 0


@dataclass(slots=True)
class ClaimSubscriptions(TicketedCommand):
    """Renew the claims of one who delivers, and take over what is free -> SubscriptionsClaimed.

    owner      its name, one for each life of a process
    capacity   subscriptions that it can take at most; 0: give all back, it ends
    seen       `SubscriptionsClaimed.version` of the last answer; the answer comes when there is a newer one, or after `wait_ms`

    A subscription has one owner at a time: another one gets it, under a higher epoch that is durable first, when the owner gave
    it back, or has not renewed for CLAIM_NS.
    """

    owner: str
    capacity: int
    seen: int = -1
    wait_ms: int = 0


@dataclass(slots=True)
class Claim:
    """One subscription that the owner delivers for.

    record   domain.subscription.document.decode reads it
    tests    serial numbers of test deliveries that are asked for
    """

    id: str
    record: bytes
    epoch: int
    tests: list[int] = field(default_factory=list)


@dataclass(slots=True)
class LeaseDeliveries(TicketedCommand):
    """Lease messages for a subscription, by its owner -> Received: a Receive, for as long as the owner is not replaced.

    epoch   of the claim
    lease   what is leased, and how long the command may wait; its ticket is that of this command

    It is refused when another owner gets the claim while it waits: messages are never leased to an owner that was replaced.
    Errors: CHANGED (the claim is another owner's), and those of Receive.
    """

    id: str
    epoch: int
    lease: Receive


@dataclass(slots=True)
class SubscriptionsClaimed(TicketedEvent):
    """Claims of the owner, valid for CLAIM_NS from its request on.

    claims    claims that are new or have changed since `seen`
    gone      ids of subscriptions that it does not deliver for any more
    whole     True: `claims` has all of its claims, and it delivers for no other subscription
    """

    claims: list[Claim] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    version: int = 0
    whole: bool = False


@dataclass(slots=True)
class SubscriptionFound(TicketedEvent):
    """One subscription as it is now: its record, which holds secrets."""

    record: bytes


@dataclass(slots=True)
class SubscriptionList(TicketedEvent):
    """Records of subscriptions by id. `more`: there are further ones."""

    records: list[bytes] = field(default_factory=list)
    more: bool = False


@dataclass(slots=True)
class Attempt:
    """One try to deliver messages.

    at_ms        epoch ms of its start
    message_id   of the first message
    messages     number of messages in the request
    number       1: the first try
    status       of the answer; 0: there was none
    took_ms      until the answer ended, or the trouble
    outcome      delivered, retried, dead-letter, suspended, or unknown: who sent it has ended before it knew the answer
    text         trouble, or reason, in words; "": none
    answer       the first KiB of the answer
    next_ms      epoch ms of the next try; 0: there is none
    """

    at_ms: int
    message_id: str
    messages: int
    number: int
    status: int
    took_ms: int
    outcome: str
    text: str = ""
    answer: bytes = b""
    next_ms: int = 0


@dataclass(slots=True)
class RecordAttempts(TicketedCommand):
    """Store attempts, by who delivers -> Done. Attempts under an older epoch of the claim are stored too: they were made.

    The newest ATTEMPTS_MAX of a subscription are kept.

    test   serial number of the test delivery that the one attempt is of; 0: none
    """

    id: str
    epoch: int
    attempts: list[Attempt]
    breaker: str = "closed"
    test: int = 0


@dataclass(slots=True)
class DeliveryReport:
    """Results of deliveries of one subscription.

    epoch          of the claim under which the messages were sent
    attempts       attempts to record; several when they are reported together
    group, topic   group that received the messages, and their topic
    receipts       of messages to acknowledge
    """

    id: str
    epoch: int
    breaker: str
    attempts: list[Attempt]
    group: str
    topic: str
    receipts: list[Receipt] = field(default_factory=list)


@dataclass(slots=True)
class RecordDeliveries(TicketedCommand):
    """Store attempts of several subscriptions, and settle their messages, by who delivers -> DeliveriesRecorded.

    The attempts come first: a message that is settled has its attempt in the log, also after a crash in between.
    """

    deliveries: list[DeliveryReport]


@dataclass(slots=True)
class DeliveriesRecorded(TicketedEvent):
    """The attempts are stored. `unsettled`: messages whose receipts were refused; they may be delivered again."""

    unsettled: int = 0


@dataclass(slots=True)
class QueryAttempts(TicketedCommand):
    """The newest attempts of a subscription -> AttemptList. Errors: SUBSCRIPTION_NOT_FOUND.

    lag   True: and how many messages it has before it
    """

    id: str
    limit: int = 100
    lag: bool = False


@dataclass(slots=True)
class AttemptList(TicketedEvent):
    """Attempts, the newest first, and how delivery stands.

    breaker   closed, open or half-open, as the owner has last said
    lag       messages from the group's positions to the ends of its queues; -1: it was not asked for, or is not known
    """

    attempts: list[Attempt] = field(default_factory=list)
    breaker: str = "closed"
    lag: int = -1


@dataclass(slots=True)
class TestSubscription(TicketedCommand):
    """Have one test event delivered by the owner, outside the log -> AttemptList with that attempt.

    Errors: SUBSCRIPTION_NOT_FOUND.
    """

    id: str


@dataclass(slots=True)
class Redrive(TicketedCommand):
    """Give dead letters of the subscription to its group again, and to no other -> Redriven. Errors: SUBSCRIPTION_NOT_FOUND."""

    id: str
    limit: int = 1_000


@dataclass(slots=True)
class Redriven(TicketedEvent):
    """Number of dead letters that are delivered again."""

    count: int = 0


@dataclass(slots=True)
class ResetSubscription(TicketedCommand):
    """Go on at the first message stored at or after `to_ms` -> PositionsReset. Errors: SUBSCRIPTION_NOT_FOUND.

    to_ms   epoch ms; -1: the end
    """

    id: str
    to_ms: int
