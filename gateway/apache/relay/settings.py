"""The settings of the relay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RelaySettings:
    """Settings of the relay by which remoting clients reach the brokers.

    broker_ports       first of the ports at which this gateway serves one broker each, in the order of discovery; 0: none.
                       Without them, clients since 4.9.5 name the broker in their requests, all others and the tools get the
                       brokers' own addresses
    brokers_max        brokers that get a port
    unanswered_bytes   bytes of requests of one client that servers have not answered; beyond, the client is not read
    check_signatures   true: where access is controlled, the user who signs a request must be known to this gateway too;
                       false: only Apache's brokers and name servers check what clients may do
    """

    broker_ports: Annotated[int, Meta(ge=0, le=65_000)] = 10_921
    brokers_max: Annotated[int, Meta(ge=1, le=1_024)] = 64
    unanswered_bytes: Annotated[int, Meta(ge=64 * 1024)] = 16 * MIB
    check_signatures: bool = False
