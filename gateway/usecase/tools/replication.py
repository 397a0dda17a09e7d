"""Questions of tools about the replicas of this node's store group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import final

from domain.admin.replica import QueryReplica, ReplicaFound, ReplicaView
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs


@final
class Replicas:
    """The verb QueryReplica."""

    def __init__(self, view: ReplicaView | None, figures: Callable[[], Mapping[str, float]]) -> None:
        """`view`: None when the store keeps its log alone. `figures` are those of the store."""
        self._view = view
        self._figures = figures
        self.verbs: Verbs = {QueryReplica: self._query}

    def _query(self, connection: ClientConnection, command: QueryReplica) -> None:
        if self._view is None:
            end = int(self._figures().get("log_end", 0))
            connection.answer(ReplicaFound(command.ticket, False, 0, True, "", end, end))
            return
        state = self._view.state()
        connection.answer(
            ReplicaFound(
                command.ticket, True, state.own, state.leads, state.leader, state.written, state.confirmed,
                [(era.epoch, era.begin) for era in state.eras], list(state.followers),
            )
        )  # fmt: skip
