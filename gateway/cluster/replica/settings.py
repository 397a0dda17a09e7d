"""The table `[replication]`: this node's store is a replica of a store group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta

from gateway.link.servers import Servers, endpoints_of

SKEW_MS: Final = 500


@dataclass(frozen=True, slots=True)
class ReplicationSettings:
    """Settings of a replica. Raises ValueError for values that are not valid.

    controllers         `HOST:PORT` of every controller; empty: the store is no replica. The setting `broker` names the group
    learner             True: the replica gets the log and is never elected
    remote              name of the place of a remote replica, as "frankfurt": a learner, which follows asynchronously. It
                        leads by `headgate cluster promote`, when the place of the others is lost; "": it is none
    serve_readers       True: while it follows, the replica serves readers at its port `readers`, up to its confirmed position
    offload_mib         a consumer that reads this many MiB of log before its end is sent to a follower; 0: none is
    address             `HOST:PORT` at which other replicas reach this one; "": what routes carry, and port `replication`
    access_key_file     file whose first line is `NAME:PASSWORD` of a user with the right Update on the cluster, at controllers
                        and other replicas; "": requests to them are not signed
    ca                  PEM file of the authorities of their certificates: connections use TLS; "": plain text
    clock_skew_max_ms   how far apart the clocks of replicas may be: one that begins to lead delays the ends of leases and the
                        timers of its predecessor by so much; one whose clock is off by more does not lead while another can
    """

    controllers: tuple[str, ...] = ()
    learner: bool = False
    remote: Annotated[str, Meta(pattern="^[A-Za-z0-9._-]{0,64}$")] = ""
    serve_readers: bool = True
    offload_mib: Annotated[int, Meta(ge=0, le=1 << 40)] = 1_024
    address: str = ""
    access_key_file: str = ""
    ca: str = ""
    clock_skew_max_ms: Annotated[int, Meta(ge=50, le=60_000)] = SKEW_MS

    def __post_init__(self) -> None:
        endpoints_of(self.controllers, "controllers", "a controller", 9878)
        endpoints_of(filter(None, (self.address,)), "address", "this replica", 10912)

    @property
    def servers(self) -> Servers:
        """The controllers. Requests to replicas carry the same key, and certificates of replicas have the same authorities."""
        endpoints = endpoints_of(self.controllers, "controllers", "a controller", 9878)
        return Servers("replication", endpoints, self.access_key_file, self.ca)
