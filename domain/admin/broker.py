"""What can be asked of the node itself, and the answers: counters, rates, and its policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from domain.command import Command
from domain.event import Event


@dataclass(slots=True)
class QueryNodeCounters(Command):
    """The node's figures -> Figures."""

    ticket: object


@dataclass(slots=True)
class NodeCounters(Event):
    """`started_ms`: wall clock at start. `values`: what the store counts, by its own names."""

    ticket: object
    started_ms: int
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class QueryRates(Command):
    """How much went by under a name -> Rates. ARGUMENT_ILLEGAL when nothing did.

    name   RocketMQ's: TOPIC_PUT_NUMS, TOPIC_PUT_SIZE (key: topic), GROUP_GET_NUMS, GROUP_GET_SIZE (topic@group),
           BROKER_PUT_NUMS, BROKER_GET_NUMS (any key)
    """

    ticket: object
    name: str
    key: str


@dataclass(frozen=True, slots=True)
class FlowRate:
    """What went by in a stretch of time: the sum, how much a second, and how much at a time."""

    sum: int = 0
    per_second: float = 0.0
    per_time: float = 0.0


@dataclass(slots=True)
class Rates(Event):
    """Over the last minute, hour and day, as far as the node has been up."""

    ticket: object
    minute: FlowRate
    hour: FlowRate
    day: FlowRate


@dataclass(slots=True)
class ChangeNodePolicy(Command):
    """Change what the node does unasked, until its next start -> Done. ARGUMENT_ILLEGAL.

    `changes`: create_topics, create_groups (true, false), queues (of topics made on first use), share_strategy,
    priority_order_ascending (true, false), priority_again_first_percent (0 to 100), transaction_timeout_ms,
    transaction_check_ms, transaction_checks_max (see domain.transaction.TransactionCheckPolicy) -> values as text; all or none.
    """

    ticket: object
    changes: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class QueryNodePolicy(Command):
    """What the node does unasked -> NodePolicyFound."""

    ticket: object


@dataclass(slots=True)
class NodePolicyFound(Event):
    """Name -> value as text."""

    ticket: object
    values: dict[str, str]
