"""A gateway that has no store says so to the controllers: they know no gateway that has never found a leader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, final

from domain.controller.gateway_search import SAID_CHARS_MAX, GatewaySearch
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer
from gateway.link.link import RemotingLink
from gateway.link.request import Request
from protocols.remoting import codes
from protocols.remoting.controller import asking

LOOK_MS: Final = 2_000
"""Time between two looks at whether there is a store, and between two reports."""
AFTER_MS: Final = 5_000
"""Time without a store before the first report: an election, and a start, are over before."""
ANSWER_MS: Final = 2_000


class Search(NamedTuple):
    """The search of a gateway, as in GatewaySearch."""

    seeks: str
    why: str


@final
class SearchReport:
    """Sends reports to all controllers while the gateway has no store.

    told   reports that were sent
    """

    def __init__(
        self, name: str, life: str, links: Sequence[RemotingLink], clock: Clock, search: Callable[[], Search | None]
    ) -> None:
        """`name`: of the gateway; `life`: random text of its process; `search()`: None while there is a store."""
        self.told = 0
        self._name = name
        self._life = life
        self._links = links
        self._clock = clock
        self._search = search
        self._since_ns = clock.monotonic_ns()
        self._timer: Timer | None = None

    def start(self) -> None:
        """Look every LOOK_MS until `close`."""
        self._since_ns = self._clock.monotonic_ns()
        self._wait()

    def _wait(self) -> None:
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + LOOK_MS * MILLISECOND_NS, self._look)

    def _look(self) -> None:
        self._wait()
        search, now_ns = self._search(), self._clock.monotonic_ns()
        if search is None:
            self._since_ns = now_ns
            return
        waits_ms = (now_ns - self._since_ns) // MILLISECOND_NS
        if waits_ms < AFTER_MS:
            return
        word = GatewaySearch(self._name, search.seeks[:SAID_CHARS_MAX], search.why[:SAID_CHARS_MAX], waits_ms)
        self.told += 1
        request = Request(codes.HEAR_GATEWAY, asking.searching(self._life, word))
        for link in self._links:
            if not link.in_flight:
                link.ask(request, lambda _: None, ANSWER_MS)

    def close(self) -> None:
        """Send no more reports, and end the connections."""
        if self._timer is not None:
            self._timer.cancel()
        for link in self._links:
            link.close("this gateway stops")
