"""Links between controllers: each address gets a greeting twice a second; raft messages go to the controllers found there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, final

from controller.member.founding import Founding
from controller.member.identity import MemberIdentity
from domain.address import endpoint_of, endpoint_text
from domain.errors import Failure
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Entropy, Timer
from gateway.link.link import LinkEvents, RemotingLink
from gateway.link.request import Request, Sign
from gateway.link.wire import Dialer
from protocols.remoting import codes
from protocols.remoting.controller import peer
from protocols.remoting.ticket import RequestError
from protocols.remoting.wire.frame import Frame

GREET_MS: Final = 500
ANSWER_MS: Final = 1_000
"""Time that another controller has for its answer to a greeting."""


class GreetingEvents(NamedTuple):
    """Calls of the links to this controller.

    founded   called once with the founders, when the group becomes known
    greeted   called after each round of greetings
    parted    called with the identity of a controller whose process has ended the connection to it
    """

    founded: Callable[[frozenset[int]], None]
    greeted: Callable[[], None]
    parted: Callable[[int], None]


@final
class ControllerLinks:
    """`controller.member.member.Peers`, over remoting.

    book       addresses of all controllers, sent in greetings; empty while they are those of the settings
    """

    def __init__(
        self, endpoints: Sequence[tuple[str, int]], founding: Founding, dialer: Dialer, clock: Clock, entropy: Entropy,
        sign: Sign | None, events: GreetingEvents,
    ) -> None:  # fmt: skip
        self.founding = founding
        self.book: tuple[str, ...] = ()
        self._events = events
        self._clock = clock
        self._seeds = tuple(endpoint_text(*each) for each in endpoints)
        self._hints: tuple[str, ...] = ()
        self._made = partial(RemotingLink, dialer=dialer, clock=clock, entropy=entropy, sign=sign)
        self._links: dict[str, RemotingLink] = {}
        self.follow((), ())
        self._timer: Timer | None = None

    def start(self) -> None:
        """Start sending greetings."""
        self._greet()

    def close(self) -> None:
        """End all connections."""
        if self._timer is not None:
            self._timer.cancel()
        for link in self._links.values():
            link.close("this controller stops")

    def send(self, to: int, data: bytes) -> None:
        """Peers.send."""
        link = self._links.get(self.founding.address_of(to))
        if link is not None:
            link.oneway(Request(codes.TELL_CONTROLLER, {"to": str(to)}, data))

    def all_read(self, level: int) -> bool:
        """Peers.all_read."""
        return self.founding.all_read(level)

    def follow(self, book: tuple[str, ...], members: Iterable[int]) -> None:
        """Greet the controllers in `book` from now on, or those of the settings while there is none.

        members   identities that raft sends to: they are reached until they are no members any more
        """
        if book != self.book:
            self._hints = ()
        self.book = book
        self.founding.follow(book or self._seeds)
        kept = [where for node, where in self.founding.places.items() if node in members]
        # A controller with an outdated book finds the others by the settings and by received greetings.
        wanted = list(dict.fromkeys((*(book or self._seeds), *self._hints, *kept)))
        for gone in self._links.keys() - set(wanted):
            self._links.pop(gone).close("it is no controller any more")
            self.founding.silent(gone)
        for address in wanted:
            endpoint = endpoint_of(address)
            if address not in self._links and endpoint is not None:
                self._links[address] = self._made(
                    "controller", *endpoint, events=LinkEvents(ended=partial(self._ended, address))
                )

    def _ended(self, address: str) -> None:
        if node := self.founding.node_at(address):
            self._events.parted(node)

    def notified(self, greeting: MemberIdentity, book: tuple[str, ...]) -> None:
        """Another controller has greeted this one."""
        self._hear(greeting, book)
        self._notify(self.founding.notified(greeting))

    def _hear(self, greeting: MemberIdentity, book: tuple[str, ...]) -> None:
        """Greet the addresses in the book of another controller too, if this one does not have that book."""
        own = self.founding.identity.founders
        if book and book != self.book and (not own or greeting.founders == own):
            self._hints = book

    def _greet(self) -> None:
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + GREET_MS * MILLISECOND_NS, self._greet)
        own = self.founding.identity
        for address, link in list(self._links.items()):
            request = Request(codes.GREET_CONTROLLER, peer.fields(own.node, tuple(sorted(own.founders)), self.book, own.level))
            link.ask(request, partial(self._answered, address), ANSWER_MS)
        self._events.greeted()

    def _answered(self, address: str, answer: Frame | Failure) -> None:
        if isinstance(answer, Failure) or answer.code != codes.SUCCESS:
            self.founding.silent(address)
            return
        try:
            node, founders, book, level = peer.read(answer.fields() or {})
        except RequestError:
            self.founding.silent(address)
            return
        greeting = MemberIdentity(node, frozenset(founders), level)
        self._hear(greeting, book)
        if address in self._links:
            self._notify(self.founding.heard(address, greeting))

    def _notify(self, founders: frozenset[int]) -> None:
        if founders:
            self._events.founded(founders)
