"""Queries of the node itself, and their answers: counters, rates, and its policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from domain.command import TicketedCommand
from domain.event import TicketedEvent


@dataclass(slots=True)
class QueryNodeCounters(TicketedCommand):
    """The node's counters -> NodeCounters."""


@dataclass(slots=True)
class NodeCounters(TicketedEvent):
    """The node's counters.

    values       counters of the store, by the store's names
    """

    started_ms: int
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class QueryRates(TicketedCommand):
    """Rates of one counter -> Rates (RocketMQ code 315).

    name   TOPIC_PUT_NUMS and TOPIC_PUT_SIZE (key: topic), GROUP_GET_NUMS and GROUP_GET_SIZE (key: topic@group),
           BROKER_PUT_NUMS and BROKER_GET_NUMS (any key)

    Errors: ARGUMENT_ILLEGAL (nothing was counted under this name and key).
    """

    name: str
    key: str


@dataclass(frozen=True, slots=True)
class FlowRate:
    """Counts of a period: their sum, the sum per second, and the mean of one count."""

    sum: int = 0
    per_second: float = 0.0
    per_time: float = 0.0


@dataclass(slots=True)
class Rates(TicketedEvent):
    """Rates over the last minute, hour and day, or since the start when that is shorter."""

    minute: FlowRate
    hour: FlowRate
    day: FlowRate


@dataclass(slots=True)
class ChangeNodePolicy(TicketedCommand):
    """Change settings of the node until its next start, all or none -> Done (RocketMQ code 25).

    changes   setting -> value as text: create_topics, create_groups (true, false), queues (of topics made on first use),
              share_strategy, priority_order_ascending (true, false), priority_again_first_percent (0 to 100),
              transaction_timeout_ms, transaction_check_ms, transaction_checks_max
              (domain.transaction.TransactionCheckPolicy)

    Errors: ARGUMENT_ILLEGAL.
    """

    changes: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class QueryNodePolicy(TicketedCommand):
    """The settings that ChangeNodePolicy can change -> NodePolicyFound (RocketMQ code 26)."""


@dataclass(slots=True)
class NodePolicyFound(TicketedEvent):
    """Setting -> value as text."""

    values: dict[str, str]
