"""Links to the servers of one cluster: brokers by name, and name servers; requests to them, and requests of brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, final

from domain.address import endpoint_of
from domain.errors import ErrorCode, Failure
from domain.ports import Clock, Entropy
from gateway.brokers.broker_clocks import BrokerClocks
from gateway.brokers.refusal import refusal
from gateway.link.link import AnswerBack, Answered, LinkEvents, RemotingLink, Requested
from gateway.link.request import Request, Sign
from gateway.link.wire import Dialer
from gateway.usecase.waiting.fan_in import FanIn
from protocols.remoting.codes import NOT_SUPPORTED, SUCCESS
from protocols.remoting.wire.frame import Frame

TIMEOUT_MS: Final = 3_000


@final
class Brokers:
    """Connections to all servers of one cluster, one pipelined connection each, opened on demand.

    clocks    what the clocks of the brokers show
    _served   code of a request of brokers -> what carries it out; requests with other codes are not supported
    _refused  brokers that are not those that the name servers report, and why
    """

    def __init__(
        self,
        nameservers: Sequence[tuple[str, int]],
        dialer: Dialer,
        clock: Clock,
        entropy: Entropy,
        sign: Sign | None = None,
    ) -> None:
        """`sign`: signs each request with the access key of this node; None: requests are not signed."""
        self.clocks = BrokerClocks(clock)
        self._served: dict[int, Requested] = {}
        self._dialer = dialer
        self._clock = clock
        self._entropy = entropy
        self._sign = sign
        self._links: dict[str, RemotingLink] = {}
        self._addresses: dict[str, str] = {}
        self._refused: dict[str, str] = {}
        self._nameservers = [self._link("name server", host, port) for host, port in nameservers]
        self._nameserver = 0
        self._closed = False

    def locate(self, broker: str, address: str) -> None:
        """Set the address of the master of `broker` (`host:port`), "": unknown. A connection to another address is closed."""
        if self._addresses.get(broker, "") == address or self._closed:
            return
        self.clocks.forget(broker)
        link = self._links.pop(broker, None)
        found = endpoint_of(address)
        if found is None:
            self._addresses.pop(broker, None)
        else:
            self._addresses[broker] = address
            self._links[broker] = self._link(broker, *found)
        if link is not None:
            link.close("it is no longer there" if found is None else f"it is at {address} now")

    def refuse(self, broker: str, reason: str) -> None:
        """Fail all requests to this broker but those of `examine`: it is not the broker that the name servers report."""
        address = self._addresses.get(broker, "")
        if broker not in self._refused:
            self.locate(broker, "")  # what is in flight fails
            self._refused[broker] = reason
            self.locate(broker, address)
        self._refused[broker] = reason

    def accept(self, broker: str) -> bool:
        """Send requests to this broker: it is what the name servers report. True: it was refused before."""
        return self._refused.pop(broker, None) is not None

    def address(self, broker: str) -> str:
        """`host:port` of the master of a broker; "": unknown, or it is refused."""
        return "" if broker in self._refused else self._addresses.get(broker, "")

    def serve(self, code: int, requested: Requested) -> None:
        """Have `requested` carry out the requests of brokers with this code."""
        self._served[code] = requested

    def ask(self, broker: str, request: Request, done: Answered, timeout_ms: int = TIMEOUT_MS) -> None:
        """Send a request to the master of `broker`. `done` gets the response with any code, or a failure.

        STORE_UNAVAILABLE: there is no answer, and the outcome is unknown unless nothing could be sent; OVERLOADED: nothing was
        sent, since too many requests are in flight.
        """
        link = self._link_to(broker)
        if link is None:
            done(Failure(ErrorCode.STORE_UNAVAILABLE, f"broker {broker} is not asked: {self.waits(broker)}"))
            return
        link.ask(request, done, timeout_ms)

    def examine(self, broker: str, request: Request, done: Answered) -> None:
        """As `ask`, also for a broker that is refused: for questions about the broker itself, which let it be accepted."""
        link = self._links.get(broker)
        if link is None:
            self.ask(broker, request, done)
        else:
            link.ask(request, done, TIMEOUT_MS)

    def ask_all(self, requests: Sequence[tuple[str, Request]], done: Callable[[None | Failure], None]) -> None:
        """Send each (broker, request). `done` gets None when all have succeeded, else the first failure."""
        left = len(requests) + 1
        failures: list[Failure] = []

        def answered(broker: str, answer: Frame | Failure) -> None:
            if isinstance(answer, Failure):
                failures.append(answer)
            elif answer.code != SUCCESS:
                failures.append(refusal(broker, answer))
            one_less()

        def one_less() -> None:
            nonlocal left
            left -= 1
            if not left:
                done(failures[0] if failures else None)

        for broker, request in requests:
            self.ask(broker, request, partial(answered, broker))
        one_less()

    def oneway(self, broker: str, request: Request) -> None:
        """Send a request without answer to the master of `broker`. Its arrival is not confirmed."""
        link = self._link_to(broker)
        if link is not None:
            link.oneway(request)

    def ask_nameserver(self, request: Request, done: Answered, unless: frozenset[int] = frozenset()) -> None:
        """Send a request to the name server that answered last; when it fails, to the next one, until all have failed.

        A response with a code in `unless` is passed on only when no other name server responds with another code.
        """
        NameserverQuestion(self, request, done, unless).ask()

    def tell_nameservers(self, request: Request, done: Callable[[], None]) -> None:
        """Send a request to all name servers; `done` is called when each has answered or failed."""

        def ask(link: RemotingLink, answered: Answered) -> None:
            link.ask(request, answered, TIMEOUT_MS)

        FanIn(ask, lambda *_: done()).start((link,) for link in self._nameservers)

    def nameserver(self, tried: int) -> RemotingLink | None:
        """The name server to try after `tried` others have failed; None: there is none left."""
        if tried >= len(self._nameservers):
            return None
        return self._nameservers[(self._nameserver + tried) % len(self._nameservers)]

    def prefer(self, link: RemotingLink) -> None:
        """Make a name server, which has answered, the first one for later requests."""
        self._nameserver = self._nameservers.index(link)

    def waits(self, broker: str) -> str:
        """The reason why requests to `broker` fail at once; "": they do not."""
        link = self._link_to(broker)
        if link is not None:
            return link.waits
        return self._refused.get(broker, "the name servers know no master of it")

    def in_flight(self, broker: str) -> int:
        """Number of requests in flight to `broker`."""
        link = self._links.get(broker)
        return 0 if link is None else link.in_flight

    def figures(self) -> Mapping[str, float]:
        """Metrics, by name."""
        links = self._links.values()
        return {
            "rocketmq_brokers": sum(broker not in self._refused for broker in self._links),
            "rocketmq_brokers_connected": sum(link.connected for link in links),
            "rocketmq_requests_in_flight": sum(link.in_flight for link in links),
            "rocketmq_losses_total": sum(link.losses for link in links),
            "rocketmq_late_answers_total": sum(link.late for link in links),
        }

    def nameservers_waiting(self) -> list[str]:
        """A line for each name server that does not answer: its address and the reason."""
        return [f"{link.where}: {link.waits}" for link in self._nameservers if link.waits]

    def close(self) -> None:
        """Close all connections; requests in flight fail."""
        self._closed = True
        for link in (*self._links.values(), *self._nameservers):
            link.close("this node stops")

    def _link_to(self, broker: str) -> RemotingLink | None:
        return None if broker in self._refused else self._links.get(broker)

    def _link(self, name: str, host: str, port: int) -> RemotingLink:
        return RemotingLink(name, host, port, self._dialer, self._clock, self._entropy, self._sign, LinkEvents(self._requested))

    def _requested(self, broker: str, frame: Frame, answer: AnswerBack) -> None:
        requested = self._served.get(frame.code)
        if requested is not None:
            requested(broker, frame, answer)
        else:
            answer(NOT_SUPPORTED, {}, b"", f"request type {frame.code} not supported")


@final
class NameserverQuestion:
    """One request to the name servers, one after the other."""

    def __init__(self, brokers: Brokers, request: Request, done: Answered, unless: frozenset[int]) -> None:
        self._brokers = brokers
        self._request = request
        self._done = done
        self._unless = unless
        self._tried = 0
        self._doubted: Frame | None = None
        self._failure: Failure | None = None

    def ask(self) -> None:
        """Try the next name server, or fail."""
        link = self._brokers.nameserver(self._tried)
        if link is None:
            self._done(self._doubted or self._failure or Failure(ErrorCode.STORE_UNAVAILABLE, "there is no name server"))
            return
        self._tried += 1
        link.ask(self._request, lambda answer: self._answered(link, answer), TIMEOUT_MS)

    def _answered(self, link: RemotingLink, answer: Frame | Failure) -> None:
        if isinstance(answer, Failure):
            self._failure = self._failure or answer
            self.ask()
        elif answer.code in self._unless:
            self._doubted = answer
            self.ask()
        else:
            self._brokers.prefer(link)
            self._done(answer)
