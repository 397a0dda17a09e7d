"""Query of one group at all brokers; brokers that do not have it get it from the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.topic import Group
from gateway.apache.topics.configuration import group_from, group_request
from gateway.brokers.broker_links import Brokers
from gateway.brokers.refusal import BrokerAnswerError, refusal
from gateway.link.request import Request
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

Found = Callable[[Group | None | Failure], None]
NO_GROUP: Final = "No group in this broker"
"""Remark of brokers of 5.0 to 5.3.2, whose code says no more than that something has failed."""


def lacks_group(answer: Frame) -> bool:
    """True when a broker that was asked for a group (GET_SUBSCRIPTIONGROUP_CONFIG) says that it does not have it."""
    return answer.code == codes.GROUP_NOT_EXIST or (answer.code == codes.SYSTEM_ERROR and answer.remark.startswith(NO_GROUP))


@final
class GroupQuestion:
    """One query. The result is the group as configured at the first broker that has it; None: no broker has it.

    At brokers that create groups on first use, the query is a use. A position or a lease needs the group at each broker.
    """

    def __init__(self, servers: Brokers, name: str, brokers: Sequence[str], done: Found) -> None:
        self._servers = servers
        self._name = name
        self._brokers = brokers
        self._done = done
        self._found: dict[str, Group] = {}
        self._without: list[str] = []
        self._failure: Failure | None = None
        self._left = len(brokers)

    def ask(self) -> None:
        """Ask the brokers."""
        if not self._brokers:
            self._done(Failure(ErrorCode.STORE_UNAVAILABLE, "no broker of the cluster answers"))
        for broker in self._brokers:
            self._ask(broker)

    def _ask(self, broker: str) -> None:
        request = Request(codes.GET_GROUP, {"group": self._name, "bname": broker})
        self._servers.ask(broker, request, lambda answer: self._answered(broker, answer))

    def _answered(self, broker: str, answer: Frame | Failure) -> None:
        if isinstance(answer, Failure):
            self._failure = answer
        elif lacks_group(answer):
            self._without.append(broker)
        elif answer.code in (codes.NOT_SUPPORTED, codes.NO_PERMISSION):
            # A broker before 5.0, or one that does not report it: it creates groups on first use.
            self._found[broker] = Group(self._name)
        elif answer.code != codes.SUCCESS:
            self._failure = refusal(broker, answer)
        else:
            try:
                self._found[broker] = group_from(self._name, answer.body)
            except BrokerAnswerError as error:
                text = f"broker {broker} told group {self._name} with {error}"
                self._failure = Failure(ErrorCode.STORE_UNAVAILABLE, text)
        self._left -= 1
        if not self._left:
            self._end()

    def _end(self) -> None:
        if not self._found:
            # Another broker that did not answer may know it.
            self._done(self._failure)
            return
        group = self._found[min(self._found)]
        request = group_request(group)
        self._servers.ask_all([(broker, request) for broker in self._without], lambda failure: self._done(failure or group))
