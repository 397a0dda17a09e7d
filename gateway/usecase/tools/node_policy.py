"""The policy of the node as tools see and change it. A change holds until the next start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from domain import limits
from domain.admin.broker import ChangeNodePolicy, NodePolicyFound, QueryNodePolicy
from domain.admin.replica import ReplicaView
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused
from domain.store.store_ports import Metadata
from domain.transaction import TransactionCheckPolicy
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs
from gateway.usecase.topics_and_groups.policy import PERMISSIONS, SHARES, STRATEGIES, NodePolicy

POLICY: Final = (
    "create_topics", "create_groups", "queues", "permission", "share_strategy",
    "priority_order_ascending", "priority_again_first_percent",
)  # fmt: skip
"""Fields of NodePolicy that tools see and change; the others are set by the configuration only."""
CHECK_SETTINGS: Final[Mapping[str, tuple[str, int]]] = {
    "transaction_timeout_ms": ("timeout_ms", 86_400_000),
    "transaction_check_ms": ("interval_ms", 86_400_000),
    "transaction_checks_max": ("count_max", 10_000),
}
"""Names of transaction checks that tools see and change -> (field of Questions, highest value). The lowest value is 1."""
_FLAGS: Final[Mapping[str, bool]] = {"true": True, "false": False}


def replica_values(replica: ReplicaView) -> dict[str, str]:
    """The values of a replica of a store group, for tools: its number, whether it leads, and of a leader who confirms."""
    state = replica.state()
    confirms = {"confirming": state.confirming, "min_in_sync": state.min_in_sync, "acks": state.acks} if state.leads else {}
    return {name: str(value) for name, value in {"replica": state.own, "leads": state.leads, **confirms}.items()}


class PolicyChanging:
    """The verbs ChangeNodePolicy and QueryNodePolicy."""

    def __init__(
        self, policy: NodePolicy, check_policy: TransactionCheckPolicy, metadata: Metadata, replica: ReplicaView | None
    ) -> None:
        """`replica`: None when the store keeps its log alone."""
        self._replica = replica
        self._policy = policy
        self._check_policy = check_policy
        self._metadata = metadata
        self.verbs: Verbs = {ChangeNodePolicy: self._change, QueryNodePolicy: self._query}

    def _query(self, connection: ClientConnection, command: QueryNodePolicy) -> None:
        values = {name: str(getattr(self._policy, name)).lower() for name in POLICY}
        values.update((name, str(getattr(self._check_policy, field))) for name, (field, _) in CHECK_SETTINGS.items())
        values["durability"] = self._metadata.default_durability().value
        if self._replica is not None:
            values.update(replica_values(self._replica))
        connection.answer(NodePolicyFound(command.ticket, values))

    def _change(self, connection: ClientConnection, command: ChangeNodePolicy) -> None:
        changes: dict[str, bool | int | str] = {}
        for name, text in command.changes.items():
            value = self._read(name, text)
            if isinstance(value, Failure):
                connection.answer(Refused(command.ticket, value))
                return
            changes[name] = value
        for name, value in changes.items():
            if name in CHECK_SETTINGS:
                setattr(self._check_policy, CHECK_SETTINGS[name][0], value)
            else:
                setattr(self._policy, name, value)
        connection.answer(Done(command.ticket))

    def _read(self, name: str, text: str) -> bool | int | str | Failure:
        if name in CHECK_SETTINGS:
            return _whole(name, text, CHECK_SETTINGS[name][1])
        if name not in POLICY:
            return Failure(ErrorCode.ARGUMENT_ILLEGAL, f"{name} is no policy that can be changed")
        if isinstance(getattr(self._policy, name), bool):
            flag = _FLAGS.get(text.lower())
            if flag is None:
                return Failure(ErrorCode.ARGUMENT_ILLEGAL, f"{name} is true or false, not {text[:40]}")
            return flag
        if name == "permission":
            if text in map(str, PERMISSIONS):
                return int(text)
            return Failure(ErrorCode.ARGUMENT_ILLEGAL, f"{name} is one of {PERMISSIONS}, not {text[:40]}")
        if name == "share_strategy":
            return text if text in STRATEGIES else Failure(ErrorCode.ARGUMENT_ILLEGAL, f"{name} is one of {STRATEGIES}")
        if name == "priority_again_first_percent":
            return _whole(name, text, SHARES, 0)
        return _whole(name, text, limits.QUEUES_PER_TOPIC_MAX)


def _whole(name: str, text: str, most: int, least: int = 1) -> int | Failure:
    if text.isascii() and text.isdigit() and len(text) <= 9 and least <= int(text) <= most:
        return int(text)
    return Failure(ErrorCode.ARGUMENT_ILLEGAL, f"{name} is {least} to {most}, not {text[:40]}")


@final
class FollowerPolicy:
    """The verb QueryNodePolicy of a replica that follows: its policy begins when it leads."""

    def __init__(self, replica: ReplicaView, metadata: Metadata) -> None:
        self._replica = replica
        self._metadata = metadata
        self.verbs: Verbs = {QueryNodePolicy: self._query}

    def _query(self, connection: ClientConnection, command: QueryNodePolicy) -> None:
        values = {"durability": self._metadata.default_durability().value, **replica_values(self._replica)}
        connection.answer(NodePolicyFound(command.ticket, values))
