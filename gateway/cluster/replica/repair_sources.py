"""Other replicas of a store group as sources for the repair of a damaged log."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, final

from domain.address import endpoint_of
from domain.controller.group import StoreGroup
from domain.errors import ErrorCode, Failure
from domain.replication.message import ReadLog
from gateway.cluster.replica.peer_network import PeerNetwork
from gateway.link.link import RemotingLink
from gateway.link.request import Request
from protocols.remoting import codes
from protocols.remoting.nodes.replication import form
from protocols.remoting.ticket import RequestError
from protocols.remoting.wire.frame import Frame
from store.replication.repairing import Given

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
    """Links to the other replicas, by address."""

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
