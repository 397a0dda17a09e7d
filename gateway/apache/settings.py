"""The settings of a gateway before an Apache RocketMQ cluster."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.link.servers import Servers, endpoints_of


@dataclass(frozen=True, slots=True)
class RocketmqSettings:
    """Settings that `[store]` takes with `kind = "rocketmq"`. Raises ValueError for values that are not valid.

    nameservers       `HOST:PORT` of the cluster's name servers
    access_key_file   file whose first line is `NAME:PASSWORD` of a user of the cluster, which signs this gateway's own
                      requests; read again each second; "": see `access_key_env`
    access_key_env    environment variable with the same text; "": requests are not signed
    ca                PEM file of the authorities of the cluster's certificates: connections use TLS; "": plain text
    send              strategy for messages without an ordering key: `round-robin`, `latency`, `same-zone`, or the name of an
                      installed entry point (docs/rocketmq-cluster.md)
    zone              where this gateway is, for `same-zone`
    """

    nameservers: tuple[str, ...] = ()
    access_key_file: str = ""
    access_key_env: str = ""
    ca: str = ""
    send: str = "round-robin"
    zone: str = ""

    def __post_init__(self) -> None:
        endpoints_of(self.nameservers, "nameservers", "a name server", 9876)
        if self.access_key_file and self.access_key_env:
            raise ValueError("access_key_file and access_key_env: give one of them")

    @property
    def servers(self) -> Servers:
        """The name servers; brokers take the same key, and have the same authorities."""
        endpoints = endpoints_of(self.nameservers, "nameservers", "a name server", 9876)
        return Servers("store", endpoints, self.access_key_file, self.ca, self.access_key_env)
