"""The installed roles, found by the entry points of `gateway.roles`: each names the function that makes the role."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from domain.ports import Clock
from gateway.node.entry_points import load_named
from gateway.node.protocols import Protocols
from gateway.node.roles.role import Role
from gateway.node.settings import Config
from gateway.observe.health import Health

ROLES: Final = "gateway.roles"


@dataclass(frozen=True, slots=True)
class RoleContext:
    """The parts of a node that its role is made from.

    parts    name -> role of each part of its own in this process, which is open already
    over     called when the node has to stop, and another one to start in this process
    """

    config: Config
    clock: Clock
    health: Health
    protocols: Protocols
    parts: Mapping[str, Role]
    over: Callable[[], None]


MakeRole = Callable[[RoleContext], Role]
"""Makes a role before the ports are bound. Raises ConfigError and StoreError."""


@cache
def role_named(name: str) -> MakeRole:
    """The function that makes the role `name`. Imports its module; raises ConfigError when it is not installed or broken."""
    found, _ = load_named(
        ROLES, name,
        lambda names: f"role {name!r} is not installed; installed: {', '.join(names) or 'none'}. "
                      "Install headgate again, or run ./up",
        f"role {name!r} cannot be loaded",
    )  # fmt: skip
    make: MakeRole = found
    return make
