"""The settings of a gateway before an Apache RocketMQ cluster."""

from __future__ import annotations

from dataclasses import dataclass

from domain.address import endpoint_of


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
        for each in self.nameservers:
            if endpoint_of(each) is None:
                raise ValueError(f"nameservers has {each!r}: HOST:PORT of a name server is wanted, as in 10.0.0.5:9876")
        if self.access_key_file and self.access_key_env:
            raise ValueError("access_key_file and access_key_env: give one of them")

    @property
    def endpoints(self) -> list[tuple[str, int]]:
        """(host, port) of each name server."""
        return [found for each in self.nameservers if (found := endpoint_of(each)) is not None]
