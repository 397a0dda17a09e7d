"""The parts of a node that serve its clients, whatever its roles are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.access.authority import Access
from gateway.access.records import AccessRecords
from gateway.connection.handler import CommandEntry, Handler
from gateway.guard.settings import LimitsSettings
from gateway.guard.throttle import Throttle
from gateway.node.protocols import Adapters
from gateway.observe.counters import CounterRegistry
from gateway.webhooks.sender_consent import SenderConsent
from protocols.adapter import Losing
from protocols.host_shares import HostShares


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSide:
    """The parts between the sockets of clients and the handler of their commands.

    gate              takes the commands of clients
    access            checks credentials and rights; None: access is not controlled
    access_records    users and policies; None: this node does not keep them
    adapters          the adapters of the protocols
    limits            the table `[limits]`
    throttle          limits the rates of clients; None: no rate is limited at the start
    counter_registry  counters of all protocols
    uploads           bytes of unfinished requests
    unread            bytes of answers that clients have not read
    granting          sends consents to senders of WebHooks; None: this side sends none
    entries           places besides connections at which commands enter `gate`
    forwards          True: another node carries out the commands, and limits rates of messages
    users_elsewhere   True: another node keeps the users, and this one a copy of them
    """

    gate: Handler
    access: Access | None
    access_records: AccessRecords | None
    adapters: Adapters
    limits: LimitsSettings
    throttle: Throttle | None
    counter_registry: CounterRegistry
    uploads: HostShares
    unread: HostShares
    granting: SenderConsent | None = None
    entries: Sequence[CommandEntry] = ()
    forwards: bool = False
    users_elsewhere: bool = False

    def lost(self) -> dict[str, int]:
        """Reason -> number of messages that adapters have dropped instead of delivering them."""
        lost: dict[str, int] = {}
        for adapter in self.adapters.streams.values():
            for reason, count in adapter.lost.items() if isinstance(adapter, Losing) else ():
                lost[reason] = lost.get(reason, 0) + count
        return lost
