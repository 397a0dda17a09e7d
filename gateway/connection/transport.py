"""Interfaces that a pump uses: a transport, the admission check, and protocol recognition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from domain.refusal import Ending
from protocols.adapter import Connection, Peer


class Transport(Protocol):
    """The part of `asyncio.Transport` that a pump uses."""

    def write(self, data: bytes) -> None:
        """Queue bytes."""

    def writelines(self, list_of_data: Sequence[bytes]) -> None:
        """Queue pieces, in order."""

    def pause_reading(self) -> None:
        """Stop calling `data_received`."""

    def resume_reading(self) -> None:
        """Call `data_received` again."""

    def close(self) -> None:
        """Close when the queued bytes have been written."""

    def abort(self) -> None:
        """Close at once and discard queued bytes."""

    def set_write_buffer_limits(self, high: int) -> None:
        """Call `pause_writing` above `high` queued bytes, and `resume_writing` below a quarter of that."""

    def get_write_buffer_size(self) -> int:
        """Bytes that are queued and not written yet."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """`peername` and `sockname`."""


class AdmissionCheck(Protocol):
    """Limits connections by address (`gateway.guard.admission.Admission`)."""

    def enter(self, host: str, now: int) -> Ending | None:
        """Admit a connection from `host` and count it until `leave` -> None; else why it is refused."""

    def leave(self, host: str) -> None:
        """A connection that was admitted has ended."""


class Recognition(Protocol):
    """A connection that does not know its protocol yet (`protocols.registry.Opening`)."""

    @property
    def protocol(self) -> str:
        """The protocol's name, "" while undecided."""

    @property
    def chosen(self) -> Connection:
        """The connection to drive from now on."""

    @property
    def peer(self) -> Peer:
        """The client's addresses; behind a proxy they are known when `protocol` is."""
