"""A whole node on files in memory, with a virtual clock: commands of clients, and what it holds."""

from __future__ import annotations

import io
import random
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from domain.command import Command
from domain.errors import Failure
from domain.event import Event
from domain.message.record import Record
from domain.store.store_event import StoreEvent, StoreEventKind
from domain.store.store_ports import ReadResult, StatePairs
from domain.store.store_request import ReadRequest
from gateway.node.composition import StorePlace, compose
from gateway.node.settings import Config
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.kept.shown import shown
from tests.place import place_of
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.entropy import SeededEntropy
from tests.simulation.kit.platter import Content
from tests.simulation.world import PORTS

Files = dict[str, bytes]
STORE: Final = {"segment_bytes": 65_536, "checkpoint_bytes": 65_536, "checkpoint_ms": 2_000, "index_segment_bytes": 16_384}
"""Settings of the store: small files, frequent checkpoints."""


def unpacked(path: Path) -> Files:
    """Name -> content of the files of an archive."""
    found: Files = {}
    with tarfile.open(path) as archive:
        for member in archive:
            content = archive.extractfile(member)
            assert content is not None
            found[member.name] = content.read()
    return found


def pack(path: Path, files: Files) -> None:
    """Write an archive; equal files make equal archives."""
    with tarfile.open(path, "w:xz") as archive:
        for name, data in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def files_of(disk: MemoryDisk) -> Files:
    """All files of a disk, as a process sees them."""
    return {name: bytes(content.data) for name, content in disk.files.items()}


def disk_of(files: Files, clock: Any) -> MemoryDisk:
    """A disk with these files, all of them durable."""
    disk = MemoryDisk(clock)
    disk.files = {name: Content(data) for name, data in files.items()}
    return disk


class KeptNode:
    """A node that runs on files.

    client   who asks what no other client asks
    """

    def __init__(self, files: Files, wall_ms: int, seed: int = 1) -> None:
        self.clock = VirtualClock(wall_ms)
        self.disk = disk_of(files, self.clock)
        self.client = EventRecorder()
        entropy = SeededEntropy(random.Random(seed))
        place = place_of(Config(tables={"store": STORE}), PORTS, "10.0.0.1", self.clock, entropy)
        self.parts = compose(place, StorePlace(self.disk, 1 << 20, self._heard))
        self.run(500)

    def _heard(self, event: StoreEvent) -> None:
        if event.kind is StoreEventKind.FAULT and event.error is not None:
            raise event.error

    def run(self, milliseconds: float) -> None:
        """Let time pass."""
        self.clock.run_for(milliseconds)

    def notify(self, command: Command, client: EventRecorder | None = None) -> list[Event]:
        """What a client is answered within 100 ms."""
        recorder = client or self.client
        self.parts.gate.handle(recorder.connection, command)
        self.run(100)
        return recorder.take()

    def ask(self, command: Command, client: EventRecorder | None = None) -> Any:
        """The event that answers a command."""
        events = [each for each in self.notify(command, client) if getattr(each, "ticket", None) is not None]
        assert len(events) == 1, (command, events)
        return events[0]

    def killed(self) -> Files:
        """What is on the disk now."""
        return files_of(self.disk)

    def stopped(self) -> Files:
        """What is on the disk after a clean stop."""
        ended: list[bool] = []
        store = self.parts.store
        store.drain(lambda: ended.append(True))
        self.clock.run_until(lambda: bool(ended))
        store.close()
        return files_of(self.disk)

    def answered(self, call: Any, *given: Any) -> Any:
        """The answer of a port, which is no Failure."""
        found = self.replied(call, *given)
        assert not isinstance(found, Failure), (given, found)
        return found

    def replied(self, call: Any, *given: Any) -> Any:
        """The answer of a port."""
        found: list[Any] = []
        call(*given, found.append)
        self.clock.run_until(lambda: bool(found))
        return found[0]

    def pairs(self, space: str) -> dict[str, str]:
        """All keys and values of a space, in hexadecimal."""
        found: dict[str, str] = {}
        start: bytes | None = b""
        while start is not None:
            slice_ = self.answered(self.parts.store.state.pairs, space, b"", start, 100)
            assert isinstance(slice_, StatePairs)
            found |= {key.hex(): value.hex() for key, value in slice_.pairs}
            start = slice_.next_key
        return found

    def queue(self, topic: str, queue_id: int) -> dict[str, Any]:
        """The bounds of a queue, and all that can be read from it: offset, body, properties."""
        log = self.parts.store.log
        first, end = self.answered(log.bounds, topic, queue_id)
        records: list[Any] = []
        at = first
        while at < end:
            result = self.answered(log.read, ReadRequest(topic, queue_id, at, 100, 1 << 20))
            assert isinstance(result, ReadResult)
            for data in result.records:
                record = Record(data)
                records.append([record.queue_offset, record.body.decode("latin-1"), record.properties.decode("latin-1")])
            assert result.next_offset > at
            at = result.next_offset
        return {"first": first, "end": end, "records": records}

    def facts(self, spaces: list[str], queues: list[tuple[str, int]], groups: list[str]) -> dict[str, Any]:
        """All that it holds, where it is looked for: it changes nothing."""
        store = self.parts.store
        positions: dict[str, int] = {}
        for group in groups:
            for topic, queue_id in queues:
                found = self.replied(store.positions.offset, group, topic, queue_id)
                if isinstance(found, int):
                    positions[f"{group} {topic} {queue_id}"] = found
        figures: Mapping[str, float] = store.figures()
        return {
            "topics": [shown(each) for each in store.metadata.topics()],
            "groups": [shown(each) for each in store.metadata.groups()],
            "spaces": {space: self.pairs(space) for space in spaces},
            "queues": {f"{topic} {queue_id}": self.queue(topic, queue_id) for topic, queue_id in queues},
            "positions": positions,
            "figures": {name: figures[name] for name in ("timers", "transactions_open", "leases")},
        }
