"""The owner of a replica's states, as these and the commands of other replicas see and change it."""

from __future__ import annotations

from typing import Protocol

from domain.controller.group import StoreGroup
from domain.replication.ports import MendableLog
from store.replication.leading import Leading


class TermOwner(Protocol):
    """Knowledge that a replica has from the controllers, and the transitions between its states.

    own     id of this replica; 0: it has none yet
    epoch   the newest leader epoch that it has learned
    group   the group as last reported by a controller; None: not yet
    ended   True: no state may act any more
    """

    own: int
    epoch: int
    group: StoreGroup | None
    ended: bool

    @property
    def leading(self) -> Leading | None:
        """Leadership of this replica; None while it follows."""

    @property
    def parts(self) -> MendableLog | None:
        """Its log, for reads of parts; None: it is closed."""

    def heard(self, group: StoreGroup) -> None:
        """A controller has reported the state of the group."""

    def follows(self, epoch: int) -> None:
        """Following: the leader of `epoch` is followed from now on."""

    def register_again(self, why: str) -> None:
        """Following or restarting -> registering, for the reason `why`, text for people."""

    def restart_log(self, first: int, behind: bool) -> None:
        """Following -> restarting the log at `first`, since the leader cannot continue it. `behind` as in Following."""

    def promote(self, group: StoreGroup) -> None:
        """Following -> promoting: this replica was elected."""

    def end(self, reason: str) -> None:
        """Any state -> the end of the term, for `reason`, text for people."""
