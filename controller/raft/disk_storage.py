"""Term, vote, log and snapshot of a node in files: the `RaftStorage` port over the `Disk` port.

    controller/raft/<serial>    20 digits; each `sync` makes one file, whole and durable (written, synced, renamed)
    0 magic 4 | 4 version 4 | 8 serial 8 | 16 first 8 | 24 records, bytes 4 | 28 CRC-32 4, of bytes 8 to 28 and the records

The valid files are those from `first` of the newest one on, applied in order. A snapshot, and every `FILES_MAX`-th file, holds
the whole state and starts a new range; the files before it are removed, and a file that a power failure restores is ignored.
A file appears whole or not at all, so an unsynced end leaves no torn file: a file in this range that is missing or fails its
CRC is damage. Only the loss of the whole newest file cannot be detected.

The CRC of a later format has to cover its version, too: a version that is not VERSION is a flipped bit when the CRC is that of
VERSION, and else a later format, which this program leaves as it is.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from typing import Final, NamedTuple, final

from controller.raft.configuration import decode
from controller.raft.entry import LogEntry, kind_of
from controller.raft.persisted import HardState, Persisted, RaftSnapshot
from controller.raft.refusal import LaterVersionError
from domain.message.crc32 import crc32
from domain.ports import Disk

FOLDER: Final = "controller/raft"
FILES_MAX: Final = 64
"""Files that count, at most."""
VERSION: Final = 1
_MAGIC: Final = 0x48475246
_HEAD: Final = struct.Struct(">IIQQII")
_FACTS: Final = struct.Struct(">QQI")
_RECORD: Final = struct.Struct(">BI")
_HARD_STATE: Final = struct.Struct(">QQ")
_SNAPSHOT: Final = struct.Struct(">QQI")
_ENTRY: Final = struct.Struct(">QQB")
_HARD_STATE_KIND, _SNAPSHOT_KIND, _ENTRY_KIND = 1, 2, 3


log = logging.getLogger("headgate.controller")


class RaftDamageError(ValueError):
    """A required file is missing or damaged."""


class _File(NamedTuple):
    """One file: its number, the first valid one of its range, and its content."""

    serial: int
    first: int
    data: bytes


@final
class RaftDiskStorage:
    """The files of one node.

    is_empty   True when there was no file: a node that never began, or one whose folder is lost. The identity of the log, which
               is stored elsewhere, distinguishes them.
    _has_old   True: there may be files before the range that counts
    _kept      why the last attempt to remove them failed; "": it did not
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._known = Persisted()
        self._entries: list[LogEntry] = []
        self._pending: list[bytes] = []
        self._serial = self._first = 0
        self._anew = False
        self._has_old = False
        self._kept = ""
        self.is_empty = True

    def load(self) -> Persisted:
        """Load the stored state; `damage` names the damaged file and its fault, or the file that a later version has written.

        Nothing may be written after that.
        """
        serials = sorted(int(name) for name in self._disk.names(FOLDER) if len(name) == 20 and name.isdigit())
        self.is_empty = not serials
        if not serials:
            return Persisted()
        try:
            self._first, newest = self._read(serials[-1])
            for serial in range(self._first, serials[-1]):
                self._take(self._read(serial)[1])
            self._take(newest)
        except RaftDamageError as damage:
            return Persisted(damage=str(damage))
        except LaterVersionError as error:
            return Persisted(damage=f"{FOLDER}: {error.remedy}", is_later=True)
        self._serial = serials[-1]
        self._has_old = serials[0] < self._first
        return self._known._replace(entries=tuple(self._entries))

    def put_hard_state(self, hard_state: HardState) -> None:
        """Replace term and vote."""
        self._put(_HARD_STATE_KIND, _HARD_STATE.pack(*hard_state))

    def put_snapshot(self, snapshot: RaftSnapshot) -> None:
        """Replace the snapshot; the entries in it are deleted from the log."""
        self._put(_SNAPSHOT_KIND, _snapshot_bytes(snapshot))
        self._anew = True

    def put_entries(self, entries: tuple[LogEntry, ...]) -> None:
        """Append; entries that are there already from the first one's index on are deleted."""
        for entry in entries:
            self._put(_ENTRY_KIND, _entry_bytes(entry))

    def sync(self) -> None:
        """Write a file. Raises OSError; then the file may be there or not, and the next call writes it again."""
        if self._pending:
            file = self._next()
            self._disk.replace(_name(file.serial), file.data)
            self._written(file)

    def flush(self, done: Callable[[OSError | None], None]) -> None:
        """Write a file in the thread of the disk, as `sync` does."""
        if not self._pending:
            done(None)
            return
        file = self._next()

        def written(error: OSError | None) -> None:
            if error is None:
                self._written(file)
            done(error)

        self._disk.replace_soon(_name(file.serial), file.data, written)

    def _next(self) -> _File:
        """File with the pending records."""
        serial = self._serial + 1
        anew = self._anew or self._serial == 0 or serial - self._first >= FILES_MAX
        first = serial if anew else self._first
        records = b"".join(self._all() if anew else self._pending)
        facts = _FACTS.pack(serial, first, len(records))
        head = _HEAD.pack(_MAGIC, VERSION, serial, first, len(records), crc32(records, crc32(facts)))
        return _File(serial, first, head + records)

    def _written(self, file: _File) -> None:
        """The file is durable."""
        self._serial, self._first, self._anew = file.serial, file.first, False
        self._pending.clear()
        self._has_old = self._has_old or file.first == file.serial
        if self._has_old:
            self._remove_old()

    def _remove_old(self) -> None:
        """Remove the files before the range that counts. A failure costs room alone: the next file tries again."""
        try:
            for name in self._disk.names(FOLDER):
                if name < f"{self._first:020}":
                    self._disk.remove(f"{FOLDER}/{name}")
        except OSError as error:
            if str(error) != self._kept:
                log.warning("files in %s that count no more cannot be removed (%s): the next write tries again", FOLDER, error)
            self._kept = str(error)
        else:
            self._has_old, self._kept = False, ""

    def _put(self, kind: int, body: bytes) -> None:
        record = _RECORD.pack(kind, len(body)) + body
        self._pending.append(record)
        self._take(record)

    def _all(self) -> list[bytes]:
        parts = [
            (_HARD_STATE_KIND, _HARD_STATE.pack(*self._known.hard_state)),
            (_SNAPSHOT_KIND, _snapshot_bytes(self._known.snapshot)),
            *((_ENTRY_KIND, _entry_bytes(entry)) for entry in self._entries),
        ]
        return [_RECORD.pack(kind, len(body)) + body for kind, body in parts]

    def _read(self, serial: int) -> tuple[int, bytes]:
        """(first, records) of a file. Raises RaftDamageError."""
        name = _name(serial)
        try:
            data = self._disk.read_all(name)
        except OSError as error:
            raise RaftDamageError(f"{name} cannot be read: {error.strerror or error}") from error
        if data is None:
            raise RaftDamageError(f"{name} is missing")
        if len(data) < _HEAD.size:
            raise RaftDamageError(f"{name} has {len(data)} bytes")
        magic, version, found, first, length, crc = _HEAD.unpack_from(data)
        records = data[_HEAD.size :]
        is_whole = crc32(records, crc32(_FACTS.pack(found, first, length))) == crc
        if magic == _MAGIC and version > VERSION and not is_whole:
            raise LaterVersionError(f"{name} has format {version}, and {VERSION} is the newest that is read here")
        if magic != _MAGIC or found != serial or length != len(records) or first > serial:
            raise RaftDamageError(f"{name} does not begin as it was written")
        if not is_whole:
            raise RaftDamageError(f"{name} is not what was written")
        if version != VERSION:
            raise RaftDamageError(f"{name} has format {version}, this is {VERSION}")
        return first, records

    def _take(self, records: bytes) -> None:
        """Apply records, which are what was written, to the state. Raises LaterVersionError for one that has another form."""
        at = 0
        while at < len(records):
            kind, length = _RECORD.unpack_from(records, at)
            at += _RECORD.size
            body = records[at : at + length]
            at += length
            try:
                self._take_record(kind, body)
            except (struct.error, ValueError) as error:
                if isinstance(error, LaterVersionError):
                    raise
                raise LaterVersionError(f"a record of kind {kind} with {length} bytes cannot be read ({error})") from error

    def _take_record(self, kind: int, body: bytes) -> None:
        if kind == _HARD_STATE_KIND:
            self._known = self._known._replace(hard_state=HardState(*_HARD_STATE.unpack(body)))
        elif kind == _SNAPSHOT_KIND:
            self._take_snapshot(_snapshot(body))
        elif kind == _ENTRY_KIND:
            self._take_entry(_entry(body))
        else:
            raise LaterVersionError(f"a record has kind {kind}")

    def _take_snapshot(self, snapshot: RaftSnapshot) -> None:
        fits = any((entry.index, entry.term) == (snapshot.index, snapshot.term) for entry in self._entries)
        self._entries = [entry for entry in self._entries if entry.index > snapshot.index] if fits else []
        self._known = self._known._replace(snapshot=snapshot)

    def _take_entry(self, entry: LogEntry) -> None:
        if self._entries:
            del self._entries[max(entry.index - self._entries[0].index, 0) :]
        self._entries.append(entry)


def _name(serial: int) -> str:
    return f"{FOLDER}/{serial:020}"


def _snapshot_bytes(snapshot: RaftSnapshot) -> bytes:
    configuration = snapshot.configuration.encode()
    return _SNAPSHOT.pack(snapshot.index, snapshot.term, len(configuration)) + configuration + snapshot.data


def _snapshot(body: bytes) -> RaftSnapshot:
    index, term, length = _SNAPSHOT.unpack_from(body)
    end = _SNAPSHOT.size + length
    return RaftSnapshot(index, term, decode(body[_SNAPSHOT.size : end]), body[end:])


def _entry_bytes(entry: LogEntry) -> bytes:
    return _ENTRY.pack(entry.term, entry.index, entry.kind) + entry.data


def _entry(body: bytes) -> LogEntry:
    term, index, kind = _ENTRY.unpack_from(body)
    return LogEntry(term, index, kind_of(kind, index), body[_ENTRY.size :])
