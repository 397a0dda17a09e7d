"""What a pump stands between: a transport on the side of the loop, the use cases on the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from domain.refusal import Ending
from protocols.adapter import Connection, Peer


class Transport(Protocol):
    """The part of `asyncio.Transport` that a pump needs."""

    def write(self, data: bytes) -> None:
        """Queue bytes."""

    def writelines(self, list_of_data: Sequence[bytes]) -> None:
        """Queue pieces, in order."""

    def pause_reading(self) -> None:
        """No more `data_received`."""

    def resume_reading(self) -> None:
        """Go on."""

    def close(self) -> None:
        """Close when what is queued has been written."""

    def abort(self) -> None:
        """Close now."""

    def set_write_buffer_limits(self, high: int) -> None:
        """Bytes that may be queued before `pause_writing`; a quarter of it before `resume_writing`."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """`peername` and `sockname`."""


class AdmissionCheck(Protocol):
    """Who may have a connection (`gateway.guard.admission.Door`)."""

    def enter(self, host: str, now: int) -> Ending | None:
        """Somebody from `host`: None, and it is counted until `leave`; or why not."""

    def leave(self, host: str) -> None:
        """Somebody who had entered has gone."""


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
        """Who is at the other end; behind a proxy that is known when the protocol is."""
