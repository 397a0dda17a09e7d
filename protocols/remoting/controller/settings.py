"""Settings of a controller: codes 1009 and 1010 (RocketMQ's ControllerConfig)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from domain.controller.request import ChangeControllerSettings, ControllerSettingsFound, QueryControllerSettings
from domain.event import Event
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.ticket import Outcome, RequestError, Ticket, success
from protocols.remoting.tools.node import properties
from protocols.remoting.wire.frame import Frame

CHANGEABLE: Final[Mapping[str, str]] = {
    "notifyBrokerRoleChanged": "notify_role_changed",
    "scanNotActiveBrokerInterval": "scan_ms",
}
"""Name in Apache's ControllerConfig -> name of the controller's setting."""
FIXED: Final[Mapping[str, str]] = {
    "enableElectUncleanMaster": "false",
    "isProcessReadEvent": "true",
}
"""Settings with the same value on every controller, by the names that tools read."""


def configuration(_client: Client, frame: Frame) -> Outcome:
    """Request code 1010 -> QueryControllerSettings. The reply has the settings and FIXED, under Apache's names."""
    return (QueryControllerSettings(Ticket(frame, _configuration)),)


def _configuration(_client: Client, ticket: Ticket, event: Event) -> bytes:
    assert isinstance(event, ControllerSettingsFound)
    text = "".join(f"{name}={value}\n" for name, value in FIXED.items())
    text += "".join(f"{name}={event.values[ours]}\n" for name, ours in CHANGEABLE.items())
    return ticket.reply(codes.SUCCESS, body=text.encode())


def configure(_client: Client, frame: Frame) -> Outcome:
    """Request code 1009 -> ChangeControllerSettings; response code 16 for settings that cannot be changed."""
    wanted = properties(frame.body)
    if not wanted:
        raise RequestError(codes.INVALID_PARAMETER, "there is no key=value in it")
    fixed = [name for name in wanted if name not in CHANGEABLE]
    if fixed:
        text = f"{', '.join(fixed)[:200]}: cannot be changed; while it runs, a controller can change "
        raise RequestError(codes.NO_PERMISSION, text + ", ".join(CHANGEABLE))
    return (ChangeControllerSettings(Ticket(frame, success), {CHANGEABLE[name]: value for name, value in wanted.items()}),)
