"""The compressed COSE object of OSCORE (RFC 8613, section 6), its nonce and its additional data.

option: flags 1 = 000 h k nnn | Partial IV n | if h: length 1, ID Context | if k: the rest is the kid
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from protocols.coap.message import cbor

_HAS_CONTEXT: Final = 0x10
_HAS_KID: Final = 0x08
_RESERVED: Final = 0xE0
PIV_BYTES_MAX: Final = 5


@final
@dataclass(slots=True, eq=False)
class Header:
    """The OSCORE option of a request.

    piv          Partial IV: sender sequence number of the device, 1 to 5 bytes
    kid          Sender ID of the device
    id_context   ID Context; None: absent
    """

    piv: bytes
    kid: bytes
    id_context: bytes | None


def read(value: bytes) -> Header | None:
    """Decode the option of a request. None: reserved bits or lengths, a part that is cut short, no Partial IV or no kid."""
    if not value:
        return None
    flags = value[0]
    size = flags & 7
    if flags & _RESERVED or not flags & _HAS_KID or not 0 < size <= PIV_BYTES_MAX:
        return None
    at = 1 + size
    piv = value[1:at]
    id_context: bytes | None = None
    if flags & _HAS_CONTEXT:
        if at >= len(value):
            return None
        end = at + 1 + value[at]
        id_context = value[at + 1 : end]
        at = end
    if at > len(value) or (size > 1 and not piv[0]):
        return None
    return Header(piv, value[at:], id_context)


def option(piv: bytes) -> bytes:
    """Option of a response: with a Partial IV of this node, or b"" for a response with the nonce of its request."""
    return bytes((len(piv),)) + piv if piv else b""


def partial_iv(number: int) -> bytes:
    """A sender sequence number as a Partial IV: big-endian, without leading zero bytes; 0 is one zero byte."""
    return number.to_bytes(max(1, (number.bit_length() + 7) // 8), "big")


def nonce(common_iv: bytes, sender: bytes, piv: bytes) -> bytes:
    """AEAD nonce (section 5.2). `sender`: Sender ID of the maker of the Partial IV."""
    width = len(common_iv) - PIV_BYTES_MAX - 1
    text = bytes((len(sender),)) + sender.rjust(width, b"\x00") + piv.rjust(PIV_BYTES_MAX, b"\x00")
    return (int.from_bytes(text, "big") ^ int.from_bytes(common_iv, "big")).to_bytes(len(common_iv), "big")


def additional_data(algorithm: int, kid: bytes, piv: bytes) -> bytes:
    """The additional authenticated data (section 5.4) of a request with this kid and Partial IV, and of its responses."""
    return cbor.encode(["Encrypt0", b"", cbor.encode([1, [algorithm], kid, piv, b""])])


def derivation(ident: bytes, id_context: bytes | None, algorithm: int, kind: str, size: int) -> bytes:
    """The `info` of HKDF for a key or for the Common IV (section 3.2.1). `kind`: Key or IV."""
    return cbor.encode([ident, id_context, algorithm, kind, size])
