"""Listeners of messages that have become readable, and of messages that can be leased again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.address import HALF_TOPIC
from domain.store.store_ports import StoreListener
from domain.topic import lite
from domain.topic.lite import LiteListener
from store.delay import parking
from store.events import StoreEvents
from store.queue.queue import Queue

_WHAT: Final = "a listener of the store"


@final
class StoreListeners:
    """The listeners of all queues. One that raises costs the others nothing."""

    def __init__(self, events: StoreEvents) -> None:
        self._events = events
        self.all: list[StoreListener] = []
        self.lite: list[LiteListener] = []

    def arrived(self, queue: Queue, records: Sequence[bytes]) -> None:
        """Notify the listeners of records that have become readable, except parked messages and half messages."""
        name = queue.entry.name
        if parking.is_parking_topic(name) or name == HALF_TOPIC:
            return
        if queue.lite:
            for each in self.lite:
                self._events.run(_WHAT, each.lite_arrived, name, queue.lite)
            return
        for listener in self.all:
            try:
                listener.arrived(name, queue.id, records)
            except Exception as error:
                self._events.fault(_WHAT, error)

    def freed(self, group: str, topic: str) -> None:
        """Notify the listeners that messages of `topic` can be leased again by `group`."""
        if topic.startswith(lite.PREFIX):
            parent, name = lite.split(topic)
            for each in self.lite:
                self._events.run(_WHAT, each.lite_freed, group, parent, name)
            return
        for listener in self.all:
            self._events.run(_WHAT, listener.freed, group, topic)
