"""Who may read the metrics, of a node that serves, and of a replica that follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from domain.access import CLUSTER, EVERY, GET, LIST, Need
from domain.errors import Failure
from domain.principal import Principal
from gateway.access.authority import Access
from gateway.observe.metrics import Snapshot
from gateway.runtime.admin import credentials_of
from gateway.runtime.waiting.standby_page import Question, Refusal
from protocols.hosts import Hosts

WATCH: Final = Need(CLUSTER, EVERY, (GET, LIST))
"""The right to read the metrics."""


def may_watch(access: Access | None, principal: Principal) -> bool:
    """True for users who may read the metrics. `access`: None: it is not controlled."""
    return principal.privileged or access is None or access.verdict(principal, WATCH) is None


@final
class StandbyWatch:
    """Answers the questions of `gateway.runtime.waiting.standby_page` while a replica follows."""

    def __init__(
        self, hosts: Hosts, accesses: Callable[[], Sequence[Access]], snapshot: Callable[[], Snapshot]
    ) -> None:  # fmt: skip
        """`hosts`: names of this node. `accesses()`: users of the group's log as far as it is applied here, and those of this
        replica alone; any of them will do. Empty: access is not controlled."""
        self._hosts = hosts
        self._accesses = accesses
        self._snapshot = snapshot

    def ask(self, question: Question) -> Snapshot | Refusal:
        """The snapshot, or why the client does not get it."""
        if question.host and not self._hosts.knows(question.host.encode("latin-1", "replace")):
            return Refusal(421, "this is no name of this node: add it to [http] hosts, or advertise it")
        refusal: Refusal | None = None
        for access in self._accesses():
            found = access.authenticate(credentials_of(question.authorization), question.peer)
            if isinstance(found, Failure):
                refusal = refusal or Refusal(401, found.text)
            elif may_watch(access, found):
                return self._snapshot()
            else:
                refusal = Refusal(403, "this is for users with Get or List on the cluster")
        return refusal or self._snapshot()
