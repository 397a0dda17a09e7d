"""Client of the controllers for tools: state queries to each of them, changes to the one that leads."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar, final

from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import GroupChange
from domain.controller.request import ControllerFound
from domain.errors import ConfigError
from gateway.client.answer import AccessError, ClientError, rejected
from gateway.client.connections import ServerConnections
from gateway.client.security import KeyPlace, Tls
from protocols.remoting import codes
from protocols.remoting.controller import asking
from protocols.remoting.controller.asking import Heard
from protocols.remoting.ticket import RequestError
from protocols.remoting.wire.frame import Frame

ANSWER_S: Final = 4.0
"""Seconds that one controller has for an answer: a change that finds no majority is answered after three."""
PATIENCE_S: Final = 15.0
"""Seconds for one request in all, while the controllers elect."""
REST_S: Final = 0.25

Answer = TypeVar("Answer")


class ControllerSeen(NamedTuple):
    """One controller.

    found     state that it reports; None: it does not answer
    why       reason why it does not answer; "": it does
    """

    address: str
    found: ControllerFound | None
    why: str


@final
class ClusterControllers:
    """Blocking requests. Raises ConfigError without an answer of the leader in PATIENCE_S, AccessError for a missing right."""

    def __init__(self, addresses: Sequence[str], tls: Tls | None, key: KeyPlace | None) -> None:
        """`addresses`: host:port of some controllers, from which the others are learned."""
        self.addresses = list(dict.fromkeys(addresses))
        self._connections = ServerConnections(ANSWER_S, tls, key)
        self._leader = ""

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def seen(self) -> list[ControllerSeen]:
        """All controllers: those that were named, and those known to them."""
        found: dict[str, ControllerSeen] = {}
        waiting = list(self.addresses)
        while waiting:
            address = waiting.pop(0)
            if address not in found:
                found[address] = self._see(address)
                waiting += self._known_to(address) if not found[address].why else []
        self.addresses = list(found)
        return list(found.values())

    def groups(self, names: Sequence[str] = ()) -> list[Heard]:
        """The store groups with these names, or all, with the last reports of their replicas."""
        found: list[Heard] = []
        after = ""
        while True:
            page = self._led(codes.LIST_STORE_GROUPS, asking.listing(after, names), asking.listed)
            groups, more = page
            found += groups
            if not more or not groups:
                return found
            after = groups[-1][0].name

    def group(self, name: str) -> Heard:
        """One store group. Raises ConfigError when there is none of this name."""
        found = self.groups([name])
        if not found:
            known = ", ".join(each.name for each, _ in self.groups()[:8]) or "none"
            raise ConfigError(f"there is no store group {name!r}; known are: {known}")
        return found[0]

    def change(self, change: GroupChange) -> GroupAnswer:
        """Make a change. It is requested again when its outcome is unknown. A controller of a version before may not know it,
        whether it leads or not: then it is refused with OLD_VERSION."""
        return self._led(codes.CHANGE_STORE_GROUP, asking.changing(change), _changed)

    def change_controllers(self, address: str, remove: bool) -> str:
        """Add or remove a controller -> "" when it is decided, else the reason. The voters change later: see `seen`."""
        fields = asking.changing_controllers(address, remove)
        return self._led(codes.CHANGE_CONTROLLERS, b"", asking.controllers_changed, fields)

    def controller(self, address: str) -> ControllerSeen:
        """The state of the controller at `address`, or why it does not answer. Raises AccessError."""
        return self._see(address)

    def why_not_reached(self, address: str) -> str:
        """Why a server takes no connection from here; "": it does."""
        try:
            self._connections.link(address)
        except (OSError, ClientError) as error:
            return str(error)
        return ""

    def _see(self, address: str) -> ControllerSeen:
        try:
            return ControllerSeen(address, asking.controller_of(self._ask(address, codes.GET_CONTROLLER)), "")
        except AccessError:
            raise
        except (OSError, ClientError) as error:
            return ControllerSeen(address, None, str(error))
        except RequestError as error:
            return ControllerSeen(
                address, None, f"it is no controller of this version: code {error.code} {error.remark}".strip()
            )

    def _known_to(self, address: str) -> list[str]:
        try:
            fields = self._ask(address, codes.GET_CONTROLLER_METADATA).fields() or {}
        except (OSError, ClientError):
            return []
        return [each.partition(":")[2] for each in fields.get("peers", "").split(";") if each]

    def _led(
        self, code: int, body: bytes, read: Callable[[Frame], Answer | GroupRefusal | None],
        fields: Mapping[str, str] | None = None,
    ) -> Answer:  # fmt: skip
        """The answer of the controller that leads, decoded by `read`."""
        end = time.monotonic() + PATIENCE_S
        said: dict[str, str] = {}
        while True:
            for address in sorted(self.addresses, key=lambda each: each != self._leader):
                try:
                    found = read(self._ask(address, code, fields, body))
                    said[address] = "has no majority" if found is None else "does not lead"
                    if found is not None and not isinstance(found, GroupRefusal) and not _does_not_lead(found):
                        self._leader = address
                        return found
                except AccessError:
                    raise
                except (OSError, ClientError, RequestError) as error:
                    said[address] = str(error)
            if time.monotonic() >= end:
                raise ConfigError(
                    "no controller that leads answers: " + "; ".join(f"{each}: {why}" for each, why in said.items())
                )
            time.sleep(REST_S)
            for each in self.seen():
                said.setdefault(each.address, each.why)

    def _ask(self, address: str, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"") -> Frame:
        (frame,) = self._connections.ask(address, [(code, fields or {"from": "headgate"}, body)])
        if frame.code == codes.NO_PERMISSION:
            raise rejected(frame, f"the controller at {address}", self._connections.key)
        return frame


def _changed(frame: Frame) -> GroupAnswer | None:
    if frame.code == codes.INVALID_PARAMETER:
        return GroupAnswer(GroupRefusal.OLD_VERSION, None)
    return asking.changed(frame)


def _does_not_lead(found: object) -> bool:
    return isinstance(found, GroupAnswer) and found.refusal is GroupRefusal.NOT_LEADING
