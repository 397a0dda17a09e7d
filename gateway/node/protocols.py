"""The protocols of a node: their declarations, found by entry points, and the adapters made from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Final, final

from domain.address import host_bytes
from domain.errors import ConfigError
from domain.refusal import ReasonWords
from gateway.node.settings import ADMIN_PORT, Config
from protocols.adapter import Adapter, CarriedApart, DatagramAdapter
from protocols.declaration import GROUP, LAST, Declaration, Listener
from protocols.http2.application import ApplicationFactory
from protocols.registry import Recogniser
from protocols.setting import Setting

ADMIN: Final = Listener("admin", ADMIN_PORT, "/healthz /readyz /metrics", place=LAST + 1)
"""The node's own port for administration."""


@dataclass(frozen=True, slots=True)
class Adapters:
    """The adapters of one node."""

    streams: Mapping[str, Adapter]
    datagrams: Mapping[str, DatagramAdapter]


@final
class Protocols:
    """The declarations of a node's protocols, and tables made from all of them.

    declarations   declarations in the order of their ranks
    missing        entry point -> why it could not be loaded
    listeners      name -> listener, in the order of the table at the start
    owners         datagram listener -> its protocol
    refusals       datagram listener -> what a node that does not serve yet says to a datagram
    recogniser     finds the protocol of a connection by its first bytes
    words          word of a protocol for a refusal or an end of a connection -> its reason
    """

    def __init__(self, declarations: Iterable[Declaration], missing: Mapping[str, str]) -> None:
        """Raises ConfigError when two protocols declare the same name, listener name, or word with different reasons."""
        self.declarations = sorted(declarations, key=lambda each: (each.rank, each.name))
        self.missing = missing
        owned = [(listener, each.name) for each in self.declarations for listener in each.listeners]
        shown = sorted([*(listener for listener, _ in owned), ADMIN], key=lambda each: (each.place, each.name))
        self.listeners = {listener.name: listener for listener in shown}
        self.owners = {listener.name: name for listener, name in owned if listener.datagrams}
        of_protocol = {each.name: each.refusal for each in self.declarations}
        self.refusals = {name: of_protocol[owner] or _nothing for name, owner in self.owners.items()}
        names = [each.name for each in self.declarations]
        for name in (*names, *(listener.name for listener in shown)):
            if names.count(name) > 1 or [listener.name for listener in shown].count(name) > 1:
                raise ConfigError(f"two of the installed protocols claim the name {name!r}: uninstall one of them")
        self.recogniser = Recogniser(self.declarations)
        try:
            self.words = ReasonWords(each.words for each in self.declarations)
        except ValueError as error:
            raise ConfigError(f"the installed protocols contradict each other: {error}") from error

    @property
    def ports(self) -> dict[str, int]:
        """Listener -> default port, in the order of the table at the start."""
        return {name: listener.port for name, listener in self.listeners.items()}

    @property
    def beside(self) -> dict[str, tuple[str, int]]:
        """Listener -> the one beside which its port is, and the distance."""
        return {name: each.beside for name, each in self.listeners.items() if each.beside is not None}

    def store_host(self, host: str, ports: Mapping[str, int]) -> bytes:
        """The store host of stored messages: `host` and the port of the listener that declares it, else port 0."""
        return host_bytes(host, next((ports.get(name, 0) for name, each in self.listeners.items() if each.store_host), 0))

    @property
    def tables(self) -> dict[str, type]:
        """Table of the configuration -> its settings class."""
        return {each.name: each.settings for each in self.declarations}

    def adapters(self, config: Config, setting: Setting) -> Adapters:
        """Make all adapters. Raises ConfigError for a table whose settings are not valid."""
        applications: list[ApplicationFactory] = []
        carried: dict[str, Adapter] = {}
        streams: dict[str, Adapter] = {}
        datagrams: dict[str, DatagramAdapter] = {}
        setting = dataclasses.replace(setting, applications=applications, carried=carried)
        for each in self.declarations:
            settings: object = config.part(each.settings, each.name)
            if each.application is not None:
                applications.append(each.application(setting, settings))
            if each.datagram is not None:
                datagrams[each.name] = each.datagram(setting, settings)
            if each.stream is not None:
                streams[each.name] = each.stream(setting, settings)
                if each.path:
                    adapter = streams[each.name]
                    carried[each.path] = adapter.over_websockets if isinstance(adapter, CarriedApart) else adapter
        return Adapters(streams, datagrams)

    def taken(self, listener: Listener, streams: Mapping[str, Adapter]) -> dict[str, Adapter]:
        """Recognised protocol -> the adapter that serves it on this stream port."""
        found = {name: adapter for name, adapter in streams.items() if listener.takes is None or name in listener.takes}
        found.update({name: found[other] for name, other in listener.stand_ins.items() if other in found})
        return found

    def labels(self, listener: Listener) -> dict[str, str]:
        """Recognised protocol or application on HTTP/2 -> label of the counters of its connections on this port."""
        found = {each.name: listener.label or each.label or each.name for each in self.declarations}
        return found | {name: found[other] for name, other in listener.stand_ins.items()}


def _nothing(_datagram: bytes) -> bytes:
    """Default of `Declaration.refusal`."""
    return b""


@cache
def installed() -> Protocols:
    """The protocols of all entry points. A declaration that cannot be imported is in `missing`.

    Raises ConfigError when declarations contradict each other.
    """
    found: list[Declaration] = []
    missing: dict[str, str] = {}
    for point in entry_points(group=GROUP):
        try:
            found.append(point.load())
        except (ImportError, AttributeError) as error:
            missing[point.name] = str(error)
    return Protocols(found, missing)
