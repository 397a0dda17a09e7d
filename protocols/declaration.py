"""What a protocol says of itself, so that a node can serve it without knowing its name.

A protocol is one folder and one line in the entry-point group `gateway.protocols`; the line names a `Declaration`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from domain.refusal import Reason
from protocols.adapter import Adapter, DatagramAdapter
from protocols.http2.application import ApplicationFactory
from protocols.setting import Setting

GROUP: Final = "gateway.protocols"
"""The entry-point group of declarations."""
LAST: Final = 1_000
"""The rank and the place of what says nothing of it."""

Rule = Callable[[bytes], bool | None]
"""The first bytes of a connection, one at least and `registry.RECOGNISE_BYTES_MAX` at most -> whether they are this protocol's;
None while more bytes may still decide. A verdict stays the same whatever follows."""


@dataclass(frozen=True, slots=True)
class NoSettings:
    """A protocol has nothing to set."""


@dataclass(frozen=True, slots=True)
class Listener:
    """One port.

    name        its key in `[ports]`, in `--port` and in the table at the start
    port        where it listens by default
    about       what it is for, in the table at the start
    takes       protocols that it recognises; None: every one that is installed
    stand_ins   recognised protocol -> the protocol that answers it here in its stead
    datagrams   the port takes the datagrams of the protocol that declares it
    secure      it takes nothing but TLS; every other stream port takes both
    label       what its connections are counted under; "": the label of the protocol that is spoken
    place       its order in the table at the start
    """

    name: str
    port: int
    about: str
    takes: tuple[str, ...] | None = ()
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    datagrams: bool = False
    secure: bool = False
    label: str = ""
    place: int = LAST


@dataclass(frozen=True, slots=True)
class Declaration:
    """One protocol.

    name             what it is called everywhere: as adapter, as table of the configuration, in refusals that it counts
    settings         frozen dataclass of its table, read by `gateway.node.settings`; an instance is handed to what follows
    stream           makes the adapter of a stream protocol
    datagram         makes the adapter of a datagram protocol
    application      makes an application on HTTP/2
    listeners        ports of its own
    rank             order in which rules are asked, lowest first: HTTP/2 20, WebSocket 30, HTTP/1.1 40, MQTT 50, remoting 60.
                     Applications on HTTP/2 are asked in the same order
    begins           recognises its first bytes on a shared port; None: its own ports alone take it
    begins_carrying  the same for a protocol that carries others: made from the paths that they are carried at
    otherwise        the protocol that takes its place on a port that does not take this one; "": none
    path             path at which a WebSocket carries this protocol; "": none does
    alpn             ALPN ids that it is agreed on by (RFC 7301)
    label            what its connections are counted under; "": its name
    words            its words for ends of connections and for refusals, where they are not the name of the reason that they
                     mean; None: nobody is refused anything
    """

    name: str
    settings: type = NoSettings
    stream: Callable[[Setting, Any], Adapter] | None = None
    datagram: Callable[[Setting, Any], DatagramAdapter] | None = None
    application: Callable[[Setting, Any], ApplicationFactory] | None = None
    listeners: tuple[Listener, ...] = ()
    rank: int = LAST
    begins: Rule | None = None
    begins_carrying: Callable[[Sequence[str]], Rule] | None = None
    otherwise: str = ""
    path: str = ""
    alpn: tuple[str, ...] = ()
    label: str = ""
    words: Mapping[str, Reason | None] = field(default_factory=dict)
