"""Addresses at which a gateway looks for its store: those of the settings, and those that the store itself has reported."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, final

from domain.address import endpoint_of, endpoint_text

log: Final = logging.getLogger("headgate.store")


class AddressFile(Protocol):
    """A small file of this node."""

    def read(self) -> bytes:
        """Its content; b"": there is none. Raises OSError."""

    def replace(self, data: bytes) -> None:
        """Replace it, durably. Raises OSError."""


@final
class StoreAddresses:
    """The replicas of one store group.

    The file has a line with the addresses of the settings, and a line `NUMBER HOST:PORT` for each replica. With other addresses
    in the settings than at the last start it is ignored: the gateway may have been given another store.
    """

    def __init__(self, seeds: Sequence[tuple[str, int]], file: AddressFile) -> None:
        """`seeds`: (host, port) of the settings."""
        self._seeds = list(seeds)
        self._head = ",".join(endpoint_text(*each) for each in seeds)
        self._file = file
        self._known = self._read()

    @property
    def endpoints(self) -> list[tuple[str, int]]:
        """(host, port) to try, in turn: those of the replicas, then those of the settings, which may come back."""
        known = [endpoint for each in self._known.values() if (endpoint := endpoint_of(each)) is not None]
        return list(dict.fromkeys((*known, *self._seeds)))

    def take(self, replicas: Mapping[int, str]) -> bool:
        """Take a report of the store: number -> address, "" when it is not known now. True: `endpoints` are others.

        A replica without an address keeps the one that was reported before, and one that is not reported is removed.
        """
        known = {number: where or self._known.get(number, "") for number, where in sorted(replicas.items())}
        before, self._known = self._known, {number: where for number, where in known.items() if where}
        if self._known == before:
            return False
        lines = [self._head, *(f"{number} {where}" for number, where in self._known.items())]
        try:
            self._file.replace("".join(f"{line}\n" for line in lines).encode())
        except OSError as error:
            log.warning("where the replicas of the store are cannot be written: %s", error)
        log.info("the replicas of the store are at %s", ", ".join(self._known.values()) or self._head)
        return True

    def _read(self) -> dict[int, str]:
        try:
            head, *lines = self._file.read().decode("utf-8", "replace").split("\n")
        except OSError as error:
            log.warning("where the replicas of the store were cannot be read: %s", error)
            return {}
        if head != self._head:
            return {}
        pairs = [line.partition(" ") for line in lines]
        return {int(number): where for number, _, where in pairs if number.isdecimal() and endpoint_of(where) is not None}
