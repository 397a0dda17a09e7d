"""The PROXY header: bytes to source and destination addresses (HAProxy's proxy-protocol.txt, 2.1 and 2.2)."""

from __future__ import annotations

import ipaddress
from typing import Final, NamedTuple

_POLYNOMIAL: Final = 0x82F63B78
V1: Final = b"PROXY "
V2: Final = b"\r\n\r\n\x00\r\nQUIT\n"
V1_BYTES_MAX: Final = 107
"""Bytes of the longest version 1 header, CR LF included (2.1)."""
V2_BYTES_MAX: Final = 16 * 1024
HEAD_BYTES: Final = 16
LOCAL: Final = 0
TYPE_CRC32C: Final = 3
_PORT_MAX: Final = 65_535
_V1_FAMILIES: Final = {b"TCP4": 4, b"TCP6": 6}
_V2_FAMILIES: Final = {0x11: 4, 0x12: 4, 0x21: 16, 0x22: 16}
"""Byte of address family and transport protocol -> bytes of an IP address."""
_V2_WITHOUT_IP: Final = {0x00: 0, 0x31: 216, 0x32: 216}
"""AF_UNSPEC and AF_UNIX -> bytes of their addresses, which are not used."""

Address = tuple[str, int]


def _table() -> tuple[int, ...]:
    table: list[int] = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return tuple(table)


_TABLE: Final = _table()


def crc32c(data: bytes) -> int:
    """CRC32c of `data` (RFC 3720, appendix B.4): the Castagnoli polynomial, reflected."""
    value = 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ _TABLE[(value ^ byte) & 255]
    return value ^ 0xFFFFFFFF


class Header(NamedTuple):
    """One decoded header.

    source        address of the client; None: the header names none, the peer is the proxy
    """

    source: Address | None
    destination: Address | None
    size: int


def begins(data: bytes) -> bool | None:
    """True when `data` begins a header of either version, None while it may, False when it does not."""
    if V1.startswith(data[: len(V1)]) or V2.startswith(data[: len(V2)]):
        return True if len(data) >= (len(V1) if data[:1] == b"P" else len(V2)) else None
    return False


def read(data: bytes) -> Header | None | str:
    """The header that `data` begins with; None while it is incomplete; a text with the reason for which it is malformed."""
    return _version_1(data) if data.startswith(V1) else _version_2(data)


def _version_1(data: bytes) -> Header | None | str:
    end = data.find(b"\r\n", 0, V1_BYTES_MAX)
    if end < 0:
        return None if len(data) < V1_BYTES_MAX else "the line is too long"
    size = end + 2
    words = data[len(V1) : end].split(b" ")
    if words[0] == b"UNKNOWN":
        return Header(None, None, size)
    version = _V1_FAMILIES.get(words[0])
    if version is None or len(words) != 5:
        return "the line is not PROXY, a family, two addresses and two ports"
    source, destination = _pair(version, words[1], words[3]), _pair(version, words[2], words[4])
    if source is None or destination is None:
        return "an address or a port is none"
    return Header(source, destination, size)


def _pair(version: int, host: bytes, port: bytes) -> Address | None:
    try:
        address = ipaddress.ip_address(host.decode("ascii"))
    except ValueError:
        return None
    if address.version != version or not port.isdigit() or len(port) > 5 or (port[:1] == b"0" and len(port) > 1):
        return None
    return (_text(address), int(port)) if int(port) <= _PORT_MAX else None


def _version_2(data: bytes) -> Header | None | str:
    if len(data) < HEAD_BYTES:
        return None if len(data) <= len(V2) or data[12] >> 4 == 2 else "the version is not 2"
    command, family = data[12] & 15, data[13]
    size = HEAD_BYTES + int.from_bytes(data[14:16], "big")
    if data[12] >> 4 != 2 or command > 1:
        return "the version is not 2, or the command neither LOCAL nor PROXY"
    if size > V2_BYTES_MAX:
        return "the header is too long"
    if len(data) < size:
        return None
    header = data[:size]
    if command == LOCAL:
        return Header(None, None, size)
    source = destination = None
    if family in _V2_FAMILIES:
        width = _V2_FAMILIES[family]
        after = HEAD_BYTES + 2 * width + 4
        if after > size:
            return "the addresses are cut short"
        source = _binary(header, HEAD_BYTES, width, after - 4)
        destination = _binary(header, HEAD_BYTES + width, width, after - 2)
    elif family in _V2_WITHOUT_IP:
        after = HEAD_BYTES + _V2_WITHOUT_IP[family]
        if after > size:
            return "the addresses are cut short"
    else:
        return "the family is none"
    # The bytes after AF_UNSPEC are unspecified and are not checked.
    fault = "" if family == 0 else _check_tlvs(header, after)
    return fault or Header(source, destination, size)


def _binary(header: bytes, at: int, width: int, port_at: int) -> Address:
    return _text(ipaddress.ip_address(header[at : at + width])), int.from_bytes(header[port_at : port_at + 2], "big")


def _text(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _check_tlvs(header: bytes, at: int) -> str:
    """Check that the TLVs fill the header (2.2.1) and that a CRC32c is right (2.2.3). Returns the error, "" for none."""
    while at < len(header):
        if at + 3 > len(header):
            return "a TLV is cut short"
        size = int.from_bytes(header[at + 1 : at + 3], "big")
        value = at + 3
        if value + size > len(header):
            return "a TLV is longer than the header"
        if header[at] == TYPE_CRC32C:
            if size != 4:
                return "the checksum has not 4 bytes"
            zeroed = header[:value] + bytes(4) + header[value + 4 :]
            if crc32c(zeroed) != int.from_bytes(header[value : value + 4], "big"):
                return "the checksum is wrong"
        at = value + size
    return ""
