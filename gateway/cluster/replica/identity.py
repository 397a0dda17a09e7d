"""Identity of a replica and addresses of its controllers, in small files of its data directory."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, final

from domain.address import endpoint_of, endpoint_text
from domain.controller.group import NOTHING_SEEN, REPLICAS_MAX, TEXT_BYTES_MAX, StateSeen, StoreGroup, differ
from domain.errors import StoreError
from domain.message.crc32 import crc32
from domain.ports import Disk, Entropy

NAME: Final = "replica-node"
"""File with a random text, by which controllers recognise the node, and the id that they assigned to it, or 0."""
RUNS: Final = "replica-runs"
"""File with a random text for each of the last processes in this directory; a line each, the newest last. Controllers
distinguish the directory from a copy of it by these texts."""
RUNS_MAX: Final = REPLICAS_MAX
RUNS_KEPT: Final = RUNS_MAX // 2
"""Runs that stay in the file after a registration; the others leave room for processes that do not register."""
GROUP: Final = "replica-group"
"""File with the identity of the store group of the log, and the CRC-32 of its text: `HEX CRC`. Without it the log has none."""
SEEN: Final = "replica-seen"
"""File with the newest state of the store group that was seen, the identity of that group, and the CRC-32 of these:
`LEADER_EPOCH SET_EPOCH IDENTITY CRC`. By it controllers with an older copy of their folders are known; a
damaged one counts as none."""
CONTROLLERS: Final = "replica-controllers"
"""File with the addresses of the controllers as last reported by the one that leads, a line each."""
log: Final = logging.getLogger("headgate.replica")


@final
class ReplicaIdentity:
    """Identity of a node: a secret text, its replica id, and the run of the current process.

    id            id of the replica; 0: it has none yet
    run           random text of this process; after RUNS_MAX unregistered processes, that of the last one
    runs_before   earlier runs in this directory, one of which was the last that registered as far as the controllers know
    group         identity of the store group of the log; "": none is known
    damage        reason why the file with it cannot be read, text for people: the replica does not register. "": it can
    seen          newest state with a leader that was seen of the store group with this identity
    """

    def __init__(self, disk: Disk, entropy: Entropy, run: str = "") -> None:
        """Read the files; a directory without identity gets one. `run`: of this process, "": random. Raises StoreError for a
        malformed file, OSError."""
        self._disk = disk
        found = disk.read_all(NAME)
        words = [entropy.token(16).hex(), "0"] if found is None else found.decode("ascii", "replace").split()
        if len(words) != 2 or not words[1].isdigit():
            raise StoreError(f"{NAME} does not hold the identity of a replica", NAME)
        self.node = words[0]
        self.id = int(words[1])
        if found is None:
            self.keep(0)
        noted = (disk.read_all(RUNS) or b"").decode("ascii", "replace").split()
        # Each unanswered run may have registered, so none may be dropped: with RUNS_MAX of them, the last one is used again.
        self.run = noted[-1] if len(noted) >= RUNS_MAX else run or entropy.token(8).hex()
        self.runs_before = tuple(each for each in noted if each != self.run)
        self._is_noted = self.run in noted
        self.group, self.damage = _read_group(disk.read_all(GROUP))
        self.seen = _read_seen(disk.read_all(SEEN), self.group)
        self._storing = False

    def is_of_other(self, identity: str) -> bool:
        """True when the store group of the log is known not to be the one of `identity`; "": unknown."""
        return differ(self.group, identity)

    def keep_group(self, identity: str) -> None:
        """Store the identity of the store group durably; "" and the one that is stored change nothing. Raises OSError."""
        if identity and identity != self.group:
            self._disk.replace(GROUP, b"%s %08x\n" % (identity.encode(), crc32(identity.encode())))
            self.group = identity
            self.seen = NOTHING_SEEN

    def note_seen(self, group: StoreGroup) -> None:
        """Remember the newest state of the store group, and write it to the disk soon.

        Nothing is noted of a group without an identity, and of one without a leader.
        """
        found = StateSeen(group.leader_epoch, group.set_epoch)
        if group.leader and group.identity and group.identity == self.group and found > self.seen:
            self.seen = found
            self._store_seen()

    def _store_seen(self) -> None:
        """Write the newest state that was seen, one write at a time. After an error it is written with the next one."""
        if self._storing:
            return
        self._storing = True
        seen, words = self.seen, f"{self.seen.leader_epoch} {self.seen.set_epoch} {self.group}".encode()

        def stored(error: OSError | None) -> None:
            self._storing = False
            if error is not None:
                log.warning("the newest state of the store group cannot be written: %s", error)
            if self.seen != seen:
                self._store_seen()

        self._disk.replace_soon(SEEN, b"%s %08x\n" % (words, crc32(words)), stored)

    def note_run(self) -> None:
        """Record the run of this process durably, before it registers. Raises OSError."""
        if not self._is_noted:
            self._write(*self.runs_before, self.run)
            self._is_noted = True

    def note_registered(self) -> None:
        """Drop the oldest runs, since this process has registered. Raises OSError.

        RUNS_KEPT are kept: controllers that come back with an older copy of their folders know one of them.
        """
        if len(self.runs_before) >= RUNS_KEPT:
            before = self.runs_before[-RUNS_KEPT + 1 :]
            self._write(*before, self.run)
            self.runs_before = before

    def _write(self, *runs: str) -> None:
        self._disk.replace(RUNS, "".join(f"{each}\n" for each in runs).encode())

    def keep(self, own: int) -> None:
        """Store the id durably. Raises OSError."""
        self._disk.replace(NAME, f"{self.node} {own}\n".encode())
        self.id = own


def _read_group(data: bytes | None) -> tuple[str, str]:
    """(identity, damage) of the file GROUP."""
    if data is None:
        return "", ""
    words = data.split()
    if len(words) == 2 and data.endswith(b"\n") and words[1] == b"%08x" % crc32(words[0]) and len(words[0]) <= TEXT_BYTES_MAX:
        return words[0].decode("ascii", "replace"), ""
    return "", (
        f"the file {GROUP} in the data directory is damaged, so that it is not known of which store group the log is: nothing "
        f"was changed. Take the file from a backup; or remove it when the log surely is of this group"
    )


def _read_seen(data: bytes | None, identity: str) -> StateSeen:
    """The state in the file SEEN; NOTHING_SEEN for one of another group than `identity`."""
    words, _, checksum = (data or b"").rpartition(b" ")
    found = words.split()
    if checksum != b"%08x\n" % crc32(words) or len(found) != 3 or not identity or found[2] != identity.encode():
        return NOTHING_SEEN
    return StateSeen(int(found[0]), int(found[1])) if found[0].isdigit() and found[1].isdigit() else NOTHING_SEEN


@final
class KnownControllers:
    """Addresses of the last known controllers, for the next start: those of the settings may all be replaced by then."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def read(self) -> list[tuple[str, int]]:
        """(host, port) of each; malformed lines are skipped. Raises OSError."""
        found = (self._disk.read_all(CONTROLLERS) or b"").decode("ascii", "replace").split()
        return [endpoint for each in found if (endpoint := endpoint_of(each)) is not None]

    def keep(self, controllers: Sequence[tuple[str, int]]) -> None:
        """Write the addresses if they have changed. Raises OSError."""
        if self.read() != list(controllers):
            self._disk.replace(CONTROLLERS, "".join(f"{endpoint_text(*each)}\n" for each in controllers).encode())
