"""Lease calls in flight, and the POP requests that they have sent to brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from domain.errors import Failure
from domain.store.store_ports import LeaseResult
from domain.store.store_request import LeaseRequest

Leasing = Callable[[LeaseResult | Failure], None]


@final
class PopCall:
    """One call of `Leases.lease`.

    left       brokers that it has not asked yet, in order
    asked      number of its POPs in flight
    late       number of those that are late (PopBrokers.LATE_NS)
    heard      True: a broker has answered, or is known to have no messages
    filtered   True: it received messages, none of which matched its filter
    is_over    True: it is answered
    failure    last failure of a broker
    """

    __slots__ = ("asked", "done", "failure", "filtered", "heard", "is_over", "late", "left", "request")

    def __init__(self, request: LeaseRequest, done: Leasing) -> None:
        self.request = request
        self.done = done
        self.left: list[str] = []
        self.asked = 0
        self.late = 0
        self.heard = False
        self.filtered = False
        self.is_over = False
        self.failure: Failure | None = None


@final
class Pop:
    """A POP request in flight.

    begun_ns   time of the request, monotonic
    is_late    True: the call no longer waits for it if another broker can answer
    """

    __slots__ = ("_go_on", "begun_ns", "broker", "call", "is_late")

    def __init__(self, call: PopCall, broker: str, begun_ns: int, go_on: Callable[[PopCall], None]) -> None:
        """`go_on`: called once, when the broker is late; it asks the next broker of the call, if there is one."""
        self.call = call
        self.broker = broker
        self.begun_ns = begun_ns
        self.is_late = False
        self._go_on = go_on

    def overdue(self) -> None:
        """Mark the request as late: the call continues with its next broker, if there is one."""
        self.is_late = True
        self.call.late += 1
        self._go_on(self.call)
