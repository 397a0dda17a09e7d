"""Repair of the current log of a replica: damaged parts are read from other replicas."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

from domain.address import endpoint_of
from domain.controller.group import StoreGroup
from domain.errors import ErrorCode, Failure
from domain.ports import Clock
from domain.replication.message import ReadLog
from domain.replication.ports import DamagedPart, MendableLog
from gateway.cluster.replica.peer_network import PeerNetwork
from gateway.link.link import RemotingLink
from gateway.link.request import Request
from protocols.remoting import codes
from protocols.remoting.nodes.replication import form
from protocols.remoting.ticket import RequestError
from protocols.remoting.wire.frame import Frame
from store.replication.repairing import Given, RepairCounts, Repairing

log: Final = logging.getLogger("headgate.replica")
ANSWER_MS: Final = 5_000


@final
class _Source:
    """`store.replication.repairing.PartSource` over a link."""

    def __init__(self, group: str, name: str, link: RemotingLink) -> None:
        self.name = name
        self._group = group
        self._link = link

    def read(self, position: int, end: int, done: Given) -> None:
        """See PartSource."""
        fields = form.read_fields(ReadLog(None, self._group, position, end))
        self._link.ask(Request(codes.READ_LOG, fields), partial(_answered, done), ANSWER_MS)


@final
class RepairSources:
    """The other replicas as sources of repairs: a link to each, by its address."""

    def __init__(self, network: PeerNetwork) -> None:
        self._network = network
        self._links: dict[str, RemotingLink] = {}

    def of(self, group: StoreGroup | None, own: int) -> Sequence[_Source]:
        """The replicas of the group except `own`; the leader comes last, to spare it. `group` None: none."""
        if group is None:
            return []
        others = sorted((each for each in group.replicas if each.id != own), key=lambda each: each.id == group.leader)
        wanted = {each.address: each.id for each in others if endpoint_of(each.address) is not None}
        for address in [each for each in self._links if each not in wanted]:
            self._links.pop(address).close("the replica has another address")
        return [_Source(group.name, f"replica {number}", self._link(address)) for address, number in wanted.items()]

    def _link(self, address: str) -> RemotingLink:
        if address not in self._links:
            endpoint = endpoint_of(address)
            assert endpoint is not None
            self._links[address] = self._network.link("replica", endpoint)
        return self._links[address]

    def close(self) -> None:
        """Close all links."""
        for link in self._links.values():
            link.close("this replica stops")
        self._links.clear()


def _answered(done: Given, answer: Frame | Failure) -> None:
    if isinstance(answer, Failure):
        done(answer)
        return
    try:
        done(form.part_of(answer))
    except RequestError as error:
        done(Failure(ErrorCode.STORE_UNAVAILABLE, str(error)))


@final
class LogRepairs:
    """Repairs of one log at a time."""

    def __init__(
        self,
        name: str,
        group: Callable[[], tuple[StoreGroup | None, int]],
        sources: RepairSources,
        clock: Clock,
        counts: RepairCounts,
    ) -> None:
        """`name`: of the store group; `group()`: (the group as last reported, id of this replica)."""
        self._name = name
        self._group = group
        self._sources = sources
        self._clock = clock
        self._counts = counts
        self._repairing: Repairing | None = None

    def begin(self, parts: MendableLog) -> None:
        """Start to repair this log, and stop repairing an earlier one."""
        self.rest()
        self._repairing = Repairing(parts, lambda: self._sources.of(*self._group()), self._clock, self._counts, self._repaired)
        self._repairing.start()

    def rest(self) -> None:
        """Stop repairs until `begin`: the log is about to be replaced."""
        if self._repairing is not None:
            self._repairing.close()

    def close(self) -> None:
        """Stop repairs, and close the connections to other replicas."""
        self.rest()
        self._sources.close()

    def _repaired(self, part: DamagedPart, where: str) -> None:
        size = part.end - part.begin
        if where:
            log.warning("store group %s: %s bytes of the log at %s were damaged and are whole again, from %s",
                        self._name, size, part.begin, where)  # fmt: skip
        else:
            why = "" if self._repairing is None else self._repairing.why
            log.error("store group %s: %s bytes of the log at %s are damaged, and nobody has given them: %s",
                      self._name, size, part.begin, why)  # fmt: skip
