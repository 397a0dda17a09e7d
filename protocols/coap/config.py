"""Settings of the CoAP adapter."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from domain import limits
from domain.errors import ConfigError


@dataclass(frozen=True, slots=True)
class CoapConfig:
    """Settings of one CoAP endpoint. Bytes, counts and milliseconds, as the names say.

    datagram_bytes_max      a larger datagram is refused with 4.13, and 1,152 is what most clients send at most
    block_bytes             preferred block size of answers: 16, 32, … 1,024
    block1_bytes_max        a body in blocks may have this many bytes; 4.13 with Size1 above
    block1_peer_bytes_max   unfinished bodies of one peer together
    block1_total_bytes_max  unfinished bodies of all peers together; the oldest go first
    pinned_bytes_max        values kept so that all their blocks are of one version
    answers_max             entries of the duplicate table; answers_bytes_max: bytes of the answers in it
    peers_max               addresses remembered at once; idle ones go first
    observers_max           observations in all; observers_peer_max: of one peer
    backlog_max             notifications waiting for one observer; the oldest go first
    backlog_bytes_max       and their bytes
    requests_max            requests being executed; more are answered 5.03
    receipts_max            leases handed out with `group=` that wait for their DELETE
    ack_delay_ms            a request that takes longer gets an empty ACK first, its answer separately
    amplification           an address that has proved nothing gets at most this many times the bytes it sent; 0: no limit
    """

    datagram_bytes_max: int = 8_192
    block_bytes: int = 1_024
    block1_bytes_max: int = limits.COAP_BLOCK1_BYTES_MAX
    block1_peer_bytes_max: int = 4 * 1024 * 1024
    block1_total_bytes_max: int = 64 * 1024 * 1024
    pinned_bytes_max: int = 32 * 1024 * 1024
    answers_max: int = 1_048_576
    answers_bytes_max: int = 128 * 1024 * 1024
    peers_max: int = 131_072
    observers_max: int = 100_000
    observers_peer_max: int = 1_024
    backlog_max: int = 1_024
    backlog_bytes_max: int = 4 * 1024 * 1024
    requests_max: int = 65_536
    receipts_max: int = 65_536
    ack_delay_ms: int = 1_000
    amplification: int = 3

    @staticmethod
    def of(options: Mapping[str, object]) -> CoapConfig:
        """The table of the configuration file -> settings. Raises ConfigError for an unknown key or an illegal value."""
        names = [field.name for field in dataclasses.fields(CoapConfig)]
        values: dict[str, int] = {}
        for key, value in options.items():
            if key not in names:
                near = difflib.get_close_matches(key, names, 1)
                raise ConfigError(f"coap.{key} is not a setting" + (f"; did you mean {near[0]}?" if near else ""))
            if not isinstance(value, int) or isinstance(value, bool) or value < (0 if key == "amplification" else 1):
                raise ConfigError(f"coap.{key} must be a positive whole number, not {value!r}")
            values[key] = value
        config = CoapConfig(**values)
        if config.block_bytes not in (16, 32, 64, 128, 256, 512, 1024):
            raise ConfigError("coap.block_bytes must be a power of two from 16 to 1024")
        if config.block1_bytes_max > limits.BODY_BYTES_MAX:
            raise ConfigError(f"coap.block1_bytes_max cannot be raised above {limits.BODY_BYTES_MAX}")
        return config
