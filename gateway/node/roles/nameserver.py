"""The role nameserver without any other: it registers brokers, and answers queries of their routes."""

from __future__ import annotations

from typing import Final, final

from gateway.node.roles.installed_roles import RoleContext
from gateway.node.roles.single_purpose import SinglePurposePlace, SinglePurposeRole, SinglePurposeSide
from gateway.usecase.tools.nameserver import NameServer
from gateway.usecase.waiting.long_questions import LongQuestions
from nameserver.settings import NameserverSettings
from nameserver.stored_settings import StoredSettings
from nameserver.table import RouteTable

REFUSED: Final = "this process is a name server alone: ask a broker, whose address is in the route of a topic"


@final
class NameserverRole(SinglePurposeRole):
    """Role of a process that is a name server alone.

    routes   the brokers that have registered; once opened
    """

    routes: RouteTable

    def made(self, place: SinglePurposePlace) -> SinglePurposeSide:
        """Routes in memory, keys and users in a store of its own. Raises ConfigError and StoreError."""
        store = place.open_store()
        self.routes = RouteTable(place.config.part(NameserverSettings, "nameserver").routes_max)
        serving = NameServer(self.routes, StoredSettings(store.state), place.clock, LongQuestions(place.clock))
        return place.side(store, REFUSED, serving)

    def counters(self) -> dict[str, float]:
        """How many brokers and routes there are."""
        return {"nameserver_brokers": self.routes.broker_count, "nameserver_routes": self.routes.route_count}

    def lines(self) -> list[tuple[str, str]]:
        """Users and the folder."""
        return [self.side.access_line(), ("data", f"{self.config.data}: keys and users; brokers register again after a start")]


def make_role(context: RoleContext) -> NameserverRole:
    """The entry point `nameserver`. Raises ConfigError and StoreError."""
    return NameserverRole(context)
