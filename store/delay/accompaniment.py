"""The state change of the gateway that goes with a message that is delivered later than it was sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from domain.message.message import Message
from domain.store.store_ports import StateChange
from store.state.view import StateView


@final
class Accompaniment:
    """Asks the gateway about each delayed message when it is delivered, and each half message when it is committed.

    refused   changes without room for them since the start
    """

    def __init__(self, state: StateView) -> None:
        self._state = state
        self._askers: list[Callable[[Message], StateChange | None]] = []
        self.refused = 0

    def ask(self, change: Callable[[Message], StateChange | None]) -> None:
        """Timers.accompany."""
        self._askers.append(change)

    def changes_of(self, message: Message) -> list[StateChange]:
        """The changes in the commit of the delivery of `message`, which may lose a property. None that finds no room."""
        found: list[StateChange] = []
        for ask in self._askers:
            change = ask(message)
            if change is not None and self._state.refusal(change) is not None:
                self.refused += 1
            elif change is not None:
                found.append(change)
        return found
