"""A controller of a simulated cluster: the real composition of the role, on a simulated machine."""

from __future__ import annotations

from controller.member import identity as identities
from controller.member.founding import Founding
from domain.address import endpoint_text
from domain.errors import StoreError
from gateway.cluster.controller.controller_requests import ControllerRequests
from gateway.cluster.controller.group_joining import GroupJoining
from gateway.cluster.controller.links import ControllerLinks
from gateway.connection.connection_limits import ConnectionLimits
from gateway.connection.context import ConnectionContext
from gateway.node.settings import Config
from gateway.observe.counters import CounterRegistry
from gateway.usecase.allowed_commands import AllowedCommands
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.remoting import remoting_of
from tests.simulation.kit.wires import Listener
from tests.simulation.ledger import Traced

PORT = 9878
ENTRIES_KEPT = 12
"""Entries behind a snapshot: who is away for some seconds needs one to come back."""


class ControllerNode(Machine):
    """One controller.

    controlling   what it answers; None: it is down
    """

    _passed_over = 0

    requests: ControllerRequests | None = None
    links: ControllerLinks

    def began(self) -> None:
        """Machine.began."""
        cluster, clock, entropy = self.cluster, self.clock, self.entropy
        endpoints = cluster.controller_endpoints
        founding = Founding(identities.load(self.disk, entropy), [endpoint_text(*each) for each in endpoints])
        joining = GroupJoining(
            self.disk, clock, entropy, founding, cluster.net.dialer(self), None, lambda why: None, ENTRIES_KEPT
        )  # fmt: skip
        controlling = self.requests = joining.requests
        self.links = joining.links
        handler = AllowedCommands("a controller", controlling)
        context = ConnectionContext(
            Traced(cluster.clock, cluster.ledger, handler), clock, CounterRegistry(), ConnectionLimits(10_000)
        )  # fmt: skip
        adapter = remoting_of(Config(), self.host, PORT, entropy, clock, is_controller=True)
        cluster.net.listen(Listener(self, PORT, context, adapter))
        try:
            joining.start()
        except StoreError as error:
            self.end(f"the controller does not start: {error}")

    @property
    def failure(self) -> str:
        """Why it takes part in nothing; "": it takes part, or is down."""
        member = None if self.requests is None else self.requests.member
        return "" if member is None else member.failure

    @property
    def passed_over(self) -> int:
        """How often it has decided that a replica is slow: followers that are not waited for, and leaders that lead no more."""
        grey = None if self.requests is None else self.requests.grey
        return self._passed_over + (0 if grey is None else grey.passed_over + grey.moves)

    def gone(self) -> None:
        """Machine.gone."""
        self._passed_over = self.passed_over
        self.requests = None
