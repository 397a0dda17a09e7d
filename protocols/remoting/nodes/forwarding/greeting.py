"""The greeting between a gateway and the node that carries out its clients' commands, as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import msgspec

from domain.address import endpoint_of
from protocols.remoting.nodes.calls.octets import WireError
from protocols.remoting.nodes.forwarding.stream import UNSIZED, VERSIONS

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Greeting:
    """The greeting of a gateway, first on each connection.

    node         its name, for logs
    life         hexadecimal name of this life of its process
    store_life   the life of the store that it has a stream with; "": none
    received     number of the last frame that it has of that stream
    versions     versions of the frames that it speaks; the store chooses the newest that it speaks too
    copies       True: it keeps copies of spaces of the store's state; a store that speaks version 1 only sends them always
    """

    cluster: str
    node: str
    life: str
    store_life: str = ""
    received: int = 0
    versions: tuple[int, ...] = VERSIONS
    copies: bool = True


@dataclass(frozen=True, slots=True)
class Welcome:
    """The answer of the store's node to a greeting.

    broker       its name in routes and receipts
    life         hexadecimal name of this life of its process
    resumed      True: the stream goes on; False: the store knows nothing of it, and all clients have to begin again
    received     number of the last frame that it has of that stream
    epoch        leader epoch in which it leads its store group; 0: it is no replica, or of a version that does not say
    """

    cluster: str
    broker: str
    life: str
    controlled: bool
    resumed: bool = False
    received: int = 0
    version: int = UNSIZED
    epoch: int = 0

    @property
    def text(self) -> str:
        """Its name and whether it controls access, for people: what does not change while a gateway runs."""
        return f"{self.broker!r} {'with' if self.controlled else 'without'} access control"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The answer of a replica that follows to a greeting: no stream begins. A gateway of the version before reads no welcome.

    leader   `host:port` at which its leader takes gateways
    """

    leader: str


class ElsewhereError(WireError):
    """A replica that follows has answered. `where`: (host, port) at which its leader takes gateways."""

    def __init__(self, leader: str, where: tuple[str, int]) -> None:
        super().__init__(f"it follows the store at {leader}")
        self.where = where


def encode(value: Greeting | Welcome | Elsewhere) -> bytes:
    """A greeting or an answer to one -> JSON. An epoch of 0 is left out, as by versions that know none."""
    fields = msgspec.to_builtins(value)
    if not fields.get("epoch", True):
        del fields["epoch"]
    return msgspec.json.encode(fields)


def greeting_of(body: bytes) -> Greeting:
    """A Greeting. Raises WireError."""
    return _decode(body, Greeting)


def welcome_of(body: bytes) -> Welcome:
    """A Welcome. Raises ElsewhereError for that of a replica that follows, and WireError."""
    answer = _decode(body, _Answer)
    where = endpoint_of(answer.leader)
    if where is not None:
        raise ElsewhereError(answer.leader, where)
    return _decode(body, Welcome)


@dataclass(frozen=True, slots=True)
class _Answer:
    """The part of an answer that a welcome has not."""

    leader: str = ""


def _decode(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise WireError(f"a {kind.__name__.lower()} is none: {error}") from error
