"""Lease calls that are not answered yet, and what they ask of brokers."""

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

    left       brokers that it may still ask, in order
    asked      POPs whose answers it waits for
    late       those of them that take long
    heard      True: a broker has answered, or is known to have nothing
    filtered   it was given messages, and its filter wanted none of them
    is_over    True: it is answered
    failure    the last one of a broker
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
    """A POP that a broker has not answered.

    begun_ns   monotonic time of the request
    is_late    True: the call went on to another broker meanwhile
    """

    __slots__ = ("_go_on", "begun_ns", "broker", "call", "is_late")

    def __init__(self, call: PopCall, broker: str, begun_ns: int, go_on: Callable[[PopCall], None]) -> None:
        """`go_on` is called once, when the broker is late; it asks the next broker of the call, if there is one."""
        self.call = call
        self.broker = broker
        self.begun_ns = begun_ns
        self.is_late = False
        self._go_on = go_on

    def overdue(self) -> None:
        """The broker takes long: the call goes on without it, when there is another broker to ask."""
        self.is_late = True
        self.call.late += 1
        self._go_on(self.call)
