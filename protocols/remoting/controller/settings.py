"""Settings of a controller: codes 1009 and 1010 (RocketMQ's ControllerConfig)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from domain.controller.request import ChangeControllerSettings, ControllerSettingsFound
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.ticket import Outcome, Ticket, success
from protocols.remoting.tools.node import changes
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


def configuration(_client: Client, ticket: Ticket, event: ControllerSettingsFound) -> bytes:
    """Reply of 1010: the settings and FIXED, under Apache's names."""
    text = "".join(f"{name}={value}\n" for name, value in FIXED.items())
    text += "".join(f"{name}={event.values[ours]}\n" for name, ours in CHANGEABLE.items())
    return ticket.reply(codes.SUCCESS, body=text.encode())


def configure(_client: Client, frame: Frame) -> Outcome:
    """Request code 1009 -> ChangeControllerSettings; response code 16 for settings that cannot be changed."""
    wanted = changes(frame, CHANGEABLE, "cannot be changed; while it runs, a controller can change")
    return (ChangeControllerSettings(Ticket(frame, success), {CHANGEABLE[name]: value for name, value in wanted.items()}),)
