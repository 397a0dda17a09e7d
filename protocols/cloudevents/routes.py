"""Rules that choose the topic of an event by its source and type, for events that are sent to no topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, final

from domain.address import is_path, topic_of_path
from protocols.cloudevents.event import CloudEvent, CloudEventError

ROUTES_MAX: Final = 1_000
"""Rules of a node."""
TEXT_CHARS_MAX: Final = 1_024
"""Length of what a rule compares with."""
KNOWN_MAX: Final = 1_024
"""Pairs of source and type whose topic is remembered."""
KNOWN_BYTES_MAX: Final = 256
"""Most bytes of such a pair."""
ANY: Final = "*"

Fits = Callable[[bytes], bool]


@dataclass(frozen=True, slots=True)
class EventRoute:
    """One `[[http.event_routes]]`: events whose source and type fit go to a topic. Raises ValueError.

    source   the source, or its beginning and `*`; `*`: any
    type     the type, or its beginning and `*`; `*`: any
    topic    a topic, or an MQTT path, whose first level is the topic
    """

    source: str = ANY
    type: str = ANY
    topic: str = ""

    def __post_init__(self) -> None:
        for name, text in (("source", self.source), ("type", self.type)):
            if not 0 < len(text) <= TEXT_CHARS_MAX or ANY in text[:-1]:
                raise ValueError(f"{name} is {text[:80]!r}: text, or its beginning and * at the end")
        if not is_path(self.topic) or any(level in ("", ".", "..") for level in self.topic.split("/")) or self.topic[0] == "$":
            raise ValueError(f"topic is {self.topic[:80]!r}: a topic, or a path without wildcards and empty levels")


@final
class EventRoutes:
    """The rules of a node, in the order in which they are tried."""

    def __init__(self, rules: Sequence[EventRoute] = ()) -> None:
        self._rules = [(_fits(rule.source), _fits(rule.type), _place(rule.topic)) for rule in rules]
        self._known: dict[tuple[bytes, bytes], tuple[str, str]] = {}

    def __len__(self) -> int:
        return len(self._rules)

    def find(self, event: CloudEvent) -> tuple[str, str]:
        """(topic, path as in `message.encode`) of the first rule that fits. Raises CloudEventError (unrouted) without one."""
        source, kind = event.attributes[b"source"], event.attributes[b"type"]
        key = (source, kind)
        found = self._known.get(key)
        if found is not None:
            return found
        for source_fits, type_fits, place in self._rules:
            if source_fits(source) and type_fits(kind):
                if len(source) + len(kind) <= KNOWN_BYTES_MAX:
                    if len(self._known) >= KNOWN_MAX:
                        self._known.clear()
                    self._known[key] = place
                return place
        raise CloudEventError("", "no rule of [http] event_routes fits the source and the type of this event", unrouted=True)


def _fits(text: str) -> Fits:
    if text.endswith(ANY):
        begin = text[:-1].encode()
        return lambda value: value.startswith(begin)
    whole = text.encode()
    return lambda value: value == whole


def _place(path: str) -> tuple[str, str]:
    topic = topic_of_path(path)
    return topic, "" if topic == path else path
