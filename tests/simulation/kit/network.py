"""What networks have in common, those that carry the bytes of connections (wires.py) and those that carry whole messages."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

Node = TypeVar("Node")
Message = TypeVar("Message")


def between(some: Iterable[Node], others: Iterable[Node]) -> set[tuple[Node, Node]]:
    """The directions, (from, to), between some nodes and others."""
    others = list(others)
    return {pair for one in some for other in others if one != other for pair in ((one, other), (other, one))}


@dataclass
class Weather:
    """How bad a network of messages is: the chances of what happens to each.

    lost      it is lost
    doubled   it arrives twice
    late      it takes up to 300 steps of time, so that others overtake it; else 1 to 5
    """

    lost: float = 0.0
    doubled: float = 0.0
    late: float = 0.0


class Messages(Generic[Message]):
    """Messages between nodes with numbers; nothing keeps them in order.

    weather   how bad it is now
    blocked   (sender, receiver) of messages that do not arrive
    """

    def __init__(
        self, chance: random.Random, after: Callable[[int, Callable[[], None]], object], deliver: Callable[[int, Message], None]
    ) -> None:
        """`after` calls later, in steps of time; `deliver` gets the receiver and the message."""
        self.weather = Weather()
        self.blocked: set[tuple[int, int]] = set()
        self._chance = chance
        self._after = after
        self._deliver = deliver

    def send(self, sender: int, to: int, message: Message) -> None:
        """Send a message."""
        chance, weather = self._chance, self.weather
        if chance.random() < weather.lost:
            return
        for _ in range(2 if chance.random() < weather.doubled else 1):
            steps = chance.randint(1, 300) if chance.random() < weather.late else chance.randint(1, 5)
            self._after(steps, partial(self.arrive, sender, to, message))

    def arrive(self, sender: int, to: int, message: Message) -> None:
        """Deliver a message now, unless nothing passes."""
        if (sender, to) not in self.blocked:
            self._deliver(to, message)


class OpenTransport:
    """`gateway.connection.transport.Transport` of a pump whose peer takes all that it writes; subclasses `write` and end."""

    def __init__(self, peer: tuple[str, int], own: tuple[str, int]) -> None:
        self._names = {"peername": peer, "sockname": own}

    def write(self, data: bytes) -> None:
        """Transport.write."""
        raise NotImplementedError

    def writelines(self, list_of_data: Sequence[bytes]) -> None:
        """Transport.writelines."""
        self.write(b"".join(list_of_data))

    def pause_reading(self) -> None:
        """Do nothing: bytes on their way still arrive, which a pump must accept."""

    def resume_reading(self) -> None:
        """Do nothing, as `pause_reading`."""

    def get_write_buffer_size(self) -> int:
        """None: all bytes are accepted."""
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Transport.get_extra_info."""
        return self._names.get(name, default)
