"""Addresses at which a gateway looks for its store: those of the settings, and those that the store itself has reported."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, final

from domain.address import endpoint_of, endpoint_text

log: Final = logging.getLogger("headgate.store")
_DOOR: Final = "door "
"""Begin of a line that versions before leave out."""


class AddressFile(Protocol):
    """A small file of this node."""

    def read(self) -> bytes:
        """Its content; b"": there is none. Raises OSError."""

    def replace(self, data: bytes) -> None:
        """Replace it, durably. Raises OSError."""


@final
class StoreAddresses:
    """The replicas of one store group.

    The file has a line with the addresses of the settings, a line `NUMBER HOST:PORT` for each replica, and a line
    `door NUMBER HOST:PORT` for where it names the leader, while it follows. With other addresses in the settings than at the
    last start it is ignored: the gateway may have been given another store.
    """

    def __init__(self, seeds: Sequence[tuple[str, int]], file: AddressFile) -> None:
        """`seeds`: (host, port) of the settings."""
        self._seeds = list(seeds)
        self._head = ",".join(endpoint_text(*each) for each in seeds)
        self._file = file
        self._known, self._doors = self._read()

    @property
    def endpoints(self) -> list[tuple[str, int]]:
        """(host, port) to try, in turn: those of the replicas, then those of the settings, which may come back, then those at
        which a replica that follows names the leader."""
        return list(dict.fromkeys((*_endpoints(self._known), *self._seeds, *_endpoints(self._doors))))

    def take(self, replicas: Mapping[int, str]) -> bool:
        """Take a report of the store: number -> address, "" when it is not known now. True: `endpoints` are others.

        A replica without an address keeps the one that was reported before, and one that is not reported is removed.
        """
        return self._keep(_merged(self._known, replicas), self._doors)

    def take_doors(self, doors: Mapping[int, str]) -> bool:
        """The same for the addresses at which replicas name the leader, while they follow."""
        return self._keep(self._known, _merged(self._doors, doors))

    def _keep(self, known: dict[int, str], doors: dict[int, str]) -> bool:
        if (known, doors) == (self._known, self._doors):
            return False
        self._known, self._doors = known, doors
        lines = [
            self._head,
            *(f"{number} {where}" for number, where in self._known.items()),
            *(f"{_DOOR}{number} {where}" for number, where in self._doors.items()),
        ]
        try:
            self._file.replace("".join(f"{line}\n" for line in lines).encode())
        except OSError as error:
            log.warning("where the replicas of the store are cannot be written: %s", error)
        log.info("the replicas of the store are at %s", ", ".join(self._known.values()) or self._head)
        return True

    def _read(self) -> tuple[dict[int, str], dict[int, str]]:
        try:
            head, *lines = self._file.read().decode("utf-8", "replace").split("\n")
        except OSError as error:
            log.warning("where the replicas of the store were cannot be read: %s", error)
            return {}, {}
        if head != self._head:
            return {}, {}
        doors = [line.removeprefix(_DOOR) for line in lines if line.startswith(_DOOR)]
        return _pairs(lines), _pairs(doors)


def _merged(known: Mapping[int, str], replicas: Mapping[int, str]) -> dict[int, str]:
    """Addresses after a report."""
    found = {number: where or known.get(number, "") for number, where in sorted(replicas.items())}
    return {number: where for number, where in found.items() if where}


def _endpoints(known: Mapping[int, str]) -> list[tuple[str, int]]:
    """(host, port) of each address."""
    return [endpoint for each in known.values() if (endpoint := endpoint_of(each)) is not None]


def _pairs(lines: Sequence[str]) -> dict[int, str]:
    """`NUMBER HOST:PORT` -> number: address. Other lines are left out."""
    pairs = [line.partition(" ") for line in lines]
    return {int(number): where for number, _, where in pairs if number.isdecimal() and endpoint_of(where) is not None}
