"""The settings of the name server: table `[nameserver]` of the configuration file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from nameserver.table import ROUTES_MAX


@dataclass(frozen=True, slots=True)
class NameserverSettings:
    """Bounds of the registrations of brokers.

    routes_max   topics of all registered brokers together; a topic of two brokers counts twice. A registration that would
                 exceed this is refused. Each takes some 100 bytes of memory
    """

    routes_max: Annotated[int, Meta(ge=1, le=16_777_216)] = ROUTES_MAX
