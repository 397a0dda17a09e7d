"""The declaration of a protocol: everything that a node needs to serve it.

A protocol is one folder and one entry point of the group `gateway.protocols`, which names a `Declaration`.
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
"""Default rank of a protocol and default place of a listener: behind all others."""

Rule = Callable[[bytes], bool | None]
"""The first bytes of a connection, from 1 to `registry.RECOGNISE_BYTES_MAX` -> True: they are of this protocol, False: they are
not, None: more bytes are needed. A result other than None is the same for the same bytes with any bytes after them."""


@dataclass(frozen=True, slots=True)
class NoSettings:
    """The settings of a protocol without settings."""


@dataclass(frozen=True, slots=True)
class Listener:
    """One port of a protocol.

    name        key in `[ports]` and `--port`, and name in the table that is printed at the start
    port        default port number
    about       description in the table at the start
    takes       protocols that are recognised on this port; None: all installed ones
    stand_ins   recognised protocol -> the protocol whose adapter serves it on this port
    datagrams   true: a UDP port for the datagrams of the protocol that declares it; false: a TCP port
    secure      true: connections must use TLS; false: TLS and plaintext are both accepted
    label       label of the counters of its connections; "": the label of the recognised protocol
    place       position in the table at the start, lowest first
    store_host  true: its address is the store host of stored messages, which offset message ids carry
    resets      true: its connections are reset when the process is killed, for clients that do not notice an end in order
    beside      (listener, distance): clients compute this port from that of the other listener. Unless it is set, it is there,
                and left out when another process has it; None: a port of its own
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
    store_host: bool = False
    resets: bool = False
    beside: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Declaration:
    """One protocol.

    name             name of the adapter, of the configuration's table, and of the protocol in counts of refusals
    settings         settings class of the table, a frozen dataclass; `gateway.node.settings_tables` makes an instance of it
    stream           makes the adapter of a stream protocol from the node's facts and the settings; None: no stream protocol
    datagram         makes the adapter of a datagram protocol in the same way; None: no datagram protocol
    application      makes an application on HTTP/2 in the same way; None: no such application
    rank             order in which rules are tried, lowest first: HTTP/2 20, WebSocket 30, HTTP/1.1 40, MQTT 50, remoting 60.
                     Applications on HTTP/2 are offered a request in the same order
    begins           recognises the protocol by its first bytes; None: it is never recognised on a shared port
    begins_carrying  makes such a rule for a protocol that carries others, from the paths at which it carries them
    otherwise        protocol that replaces this one on a port that does not accept this one; "": none
    without_tls      bytes received on a port that takes TLS only -> the answer before the connection is closed,
                     b"" for none; None: never an answer
    refusal          a datagram -> the answer of a node that does not serve yet, not longer than the datagram,
                     b"" for none; None: never an answer
    path             path at which a WebSocket carries this protocol; "": no WebSocket carries it
    alpn             ALPN ids of the protocol (RFC 7301)
    label            label of the counters of its connections; "": the name
    words            the protocol's words for refusals and ends of connections -> the reason they mean, when the word is not the
                     reason's name; None: the word is not counted as a refusal
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
    without_tls: Callable[[bytes], bytes] | None = None
    refusal: Callable[[bytes], bytes] | None = None
    path: str = ""
    alpn: tuple[str, ...] = ()
    label: str = ""
    words: Mapping[str, Reason | None] = field(default_factory=dict)
