"""The items of a stream between a gateway and the node that carries out its clients' commands.

An item begins with its kind, one byte. Numbers of clients and of tickets are the gateway's.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, final

import msgspec

from domain.access.principal import GATEWAY, Principal
from protocols.remoting.nodes.calls.octets import BOOL, I64, TEXT, Out, Reader, WireError, made, put_data, put_text

# From a gateway.
CLIENT: Final = 1
PRINCIPAL: Final = 2
COMMAND: Final = 3
STALLED: Final = 4
TRAFFIC: Final = 5
"""From version 2 of the frames on."""

# To a gateway.
EVENT: Final = 16
CLOSE: Final = 17
THROTTLE: Final = 18
REVOKE: Final = 19
READS_WAIT: Final = 20
VALUE: Final = 21
COMPLETE: Final = 22
GONE: Final = 23

NO_TICKET: Final = 0
NO_PRINCIPAL: Final = 0
GATEWAY_PRINCIPAL: Final = 1
"""The number of `domain.access.principal.GATEWAY`."""
COMMAND_HEAD: Final = struct.Struct(">BqqI")
"""COMMAND | client | ticket | principal, then number and fields of the command."""
OF_COMMAND: Final = struct.Struct(">qqI")
"""COMMAND_HEAD without the kind."""
EVENT_HEAD: Final = struct.Struct(">Bqq")
"""EVENT | client | ticket, then number and fields of the event."""
OF_EVENT: Final = struct.Struct(">qq")
"""EVENT_HEAD without the kind."""
CLIENT_HEAD: Final = struct.Struct(">Bq")
"""A kind | client."""
TRAFFIC_FIELDS: Final = struct.Struct(">16s4q")
"""Behind TRAFFIC: life of the gateway's process | messages in and out | bytes in and out, since it or the store began."""


@final
class ClientItem(NamedTuple):
    """A client of the gateway.

    host       its network, "" when it stands for many
    shared     True: it stands for all peers of a datagram port
    ends_at    a value of `EndsAt`; left out when it is 0, and in version 1 of the frames
    """

    number: int
    protocol: str
    host: str
    shared: bool
    ends_at: int = 0


_CLIENT: Final = made((I64, TEXT, TEXT, BOOL), ClientItem, lambda value: value[:4])
_EXPIRES: Final = struct.Struct(">I?q")


def put_client(client: ClientItem) -> Out:
    """The pieces of CLIENT."""
    out: Out = [bytes((CLIENT,))]
    _CLIENT.put(out, client)
    if client.ends_at:
        out.append(bytes((client.ends_at,)))  # nodes that do not know it skip it: an item says how long it is
    return out


def get_client(reader: Reader, sized: bool = False) -> ClientItem:
    """A client. `sized`: as in version 2 of the frames. Raises WireError."""
    client = _CLIENT.get(reader)
    return client._replace(ends_at=reader.take(1)[0]) if sized and reader.left else client


def put_principal(number: int, principal: Principal) -> Out:
    """The pieces of PRINCIPAL: its identity and its proof. Its rights are decided by the node that takes its commands."""
    out: Out = [bytes((PRINCIPAL,)), _EXPIRES.pack(number, principal.registered, principal.expires_ms)]
    put_text(out, principal.user)
    put_text(out, principal.host)
    put_data(out, msgspec.msgpack.encode(principal.proof))
    return out


def get_principal(reader: Reader) -> tuple[int, Principal]:
    """(number, principal that is not privileged and whose epoch is that of no decision). Raises WireError."""
    number, registered, expires_ms = reader.unpack(_EXPIRES)
    user, host = reader.text(), reader.text()
    try:
        proof = msgspec.msgpack.decode(reader.data())
    except (msgspec.MsgspecError, RecursionError) as error:
        raise WireError(f"the proof of a principal is none: {error}") from error
    if isinstance(proof, list):
        proof = tuple(proof)
    if number <= GATEWAY_PRINCIPAL:
        raise WireError(f"a principal has the number {number}")
    return number, Principal(user, host, False, bool(registered), expires_ms, 0, proof)


def known_principals() -> dict[int, Principal | None]:
    """The principals that both nodes know without their being sent."""
    return {NO_PRINCIPAL: None, GATEWAY_PRINCIPAL: GATEWAY}
