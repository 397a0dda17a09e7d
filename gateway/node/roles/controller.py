"""The role controller: it elects the leaders of store groups, together with the other controllers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, final

from controller.member import identity as identities
from controller.member.founding import Founding
from domain.address import endpoint_text
from domain.errors import ConfigError
from domain.limits import MILLISECOND_NS
from gateway.cluster.controller.controller_requests import ControllerRequests
from gateway.cluster.controller.group_joining import GroupJoining
from gateway.cluster.controller.links import ControllerLinks
from gateway.cluster.controller.settings import ControllerSettings
from gateway.node.roles.installed_roles import RoleContext
from gateway.node.roles.role import EndClients, OpenPort
from gateway.node.roles.server_access import ServerAccess
from gateway.node.roles.single_purpose import SinglePurposePlace, SinglePurposeRole, SinglePurposeSide
from gateway.observe.metrics import Snapshot

REFUSED: Final = "this process is a controller: ask a broker, whose address is in the route of a topic"


@final
class ControllerRole(SinglePurposeRole):
    """Role of a process that is a controller.

    controlling   what it answers, and its member of the group; once opened
    """

    requests: ControllerRequests
    links: ControllerLinks
    joining: GroupJoining

    def made(self, place: SinglePurposePlace) -> SinglePurposeSide:
        """The controller, and users in a store of its own. Raises ConfigError and StoreError."""
        settings = place.config.part(ControllerSettings, "controller")
        if not settings.peers:
            raise ConfigError('controller.peers is empty: name all controllers, this one too, as in ["10.0.0.5:9878"]')
        clock, entropy, disk = place.clock, place.entropy, place.directory.disk
        access = ServerAccess(settings.servers)
        endpoints = access.servers.endpoints
        dialer, sign = access.dialer(), access.kept_sign(clock)
        store = place.open_store()
        identity = identities.load(disk, entropy)
        founding = Founding(identity, [endpoint_text(*each) for each in endpoints])
        self.joining = GroupJoining(disk, clock, entropy, founding, dialer, sign, self._told)
        self.requests, self.links = self.joining.requests, self.joining.links
        return place.side(store, REFUSED, self.requests, is_controller=True)

    def _told(self, waits: str) -> None:
        """/readyz of a process that is a controller alone says why it cannot serve. One that serves clients too goes on."""
        self._health.waits = waits

    def begin(self, now_ns: int, end_clients: EndClients, open_port: OpenPort) -> None:
        """Take part in the group."""
        self.joining.start()

    def counters(self) -> dict[str, float]:
        """What this controller does."""
        member = self.requests.member
        if member is None:
            return {"controller_in_group": 0, "controller_leads": 0}
        return {
            "controller_in_group": int(not member.failure),
            "controller_leads": int(member.leads),
            "controller_term": member.term,
            "controller_members": len(member.members),
            "controller_store_groups": len(member.groups),
            "controller_messages_unread_total": member.unread,
            "controller_heartbeats_dropped_total": self.requests.heartbeats.dropped,
            "controller_strangers_total": self.requests.strangers.count,
            "controller_gateways_searching": len(
                self.requests.gateways.searching(self._clock.monotonic_ns() // MILLISECOND_NS)
            ),
            **self._grey(),
        }

    def fill(self, snapshot: Snapshot) -> Snapshot:
        """Role.fill."""
        grey = self.requests.grey
        found = super().fill(snapshot)
        return found if grey is None else replace(found, replicas=grey.replicas())

    def _grey(self) -> dict[str, float]:
        grey = self.requests.grey
        return {
            "controller_moves_total": 0 if grey is None else grey.moves,
            "controller_moves_left_total": 0 if grey is None else grey.held,
            "controller_passed_over_total": 0 if grey is None else grey.passed_over,
            "controller_replicas_out": 0 if grey is None else grey.out,
            "controller_clocks_off": 0 if grey is None else grey.clocks_off,
        }

    def lines(self) -> list[tuple[str, str]]:
        """Users, the group and the folder."""
        identity = self.links.founding.identity
        group = (
            f"founded by {len(identity.founders)} controllers" if identity.founders else "waits for all controllers to answer"
        )
        return [
            self.side.access_line(),
            ("group", group),
            ("data", f"{self.config.data}: what the controllers have decided, and users"),
        ]

    async def close(self) -> None:
        """Leave the group; close the store and the data directory."""
        self.requests.close()
        self.links.close()
        await super().close()


def make_role(context: RoleContext) -> ControllerRole:
    """The entry point `controller`. Raises ConfigError and StoreError."""
    return ControllerRole(context)
