"""What a request on /ps waits for, in `Exchange.intent`, until the event comes that answers its command."""

from __future__ import annotations

from typing import final


@final
class DataStep:
    """A request on the data of a topic that waits for the topic. `body`: what is to be published."""

    __slots__ = ("body",)

    def __init__(self, body: bytes) -> None:
        self.body = body


@final
class Making:
    """A topic that is being made."""

    __slots__ = ()


@final
class Changing:
    """A topic that is being changed."""

    __slots__ = ()


@final
class Reading:
    """A topic that is read. `keys`: its properties that are wanted."""

    __slots__ = ("keys",)

    def __init__(self, keys: tuple[int, ...]) -> None:
        self.keys = keys


@final
class Listing:
    """A list of topics. `data`: the links lead to their data."""

    __slots__ = ("data",)

    def __init__(self, data: bool) -> None:
        self.data = data
