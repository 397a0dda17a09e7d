"""States of requests on /ps (`Exchange.intent`) that wait for the event of their command."""

from __future__ import annotations

from typing import final


@final
class DataStep:
    """A request on the data of a topic that waits for the topic. `body`: the body to publish."""

    __slots__ = ("body",)

    def __init__(self, body: bytes) -> None:
        self.body = body


@final
class Making:
    """A pending creation of a topic."""

    __slots__ = ()


@final
class Changing:
    """A pending change of a topic."""

    __slots__ = ()


@final
class Reading:
    """A pending read of a topic. `keys`: the requested properties."""

    __slots__ = ("keys",)

    def __init__(self, keys: tuple[int, ...]) -> None:
        self.keys = keys


@final
class Listing:
    """A pending list of topics. `data`: True: the links lead to their data."""

    __slots__ = ("data",)

    def __init__(self, data: bool) -> None:
        self.data = data
