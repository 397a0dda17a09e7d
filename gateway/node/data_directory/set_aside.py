"""`headgate set-aside list DIR` and `headgate set-aside export DIR FOLDER`: what a data directory keeps that was set aside.

They only read, also while a node runs in the directory: it writes a folder once, before it reports that.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from domain.admin.text_table import aligned
from domain.errors import ConfigError
from domain.message import property as properties
from domain.message.record import Record
from domain.set_aside import ASIDE
from store.offline.set_aside import UnreadableBytes, messages

DONE: Final = 0
DAMAGED: Final = 1
_TITLES: Final = ("FOLDER", "FILES", "BYTES", "FROM", "TO", "MESSAGES", "UNREADABLE")


class AsideFolder(NamedTuple):
    """One folder in `set-aside`.

    begin, end   positions of the log between which its segments lie; both 0 when it has none
    messages     messages in its segments, of clients and of the node itself
    unreadable   bytes of its segments in which no batch can be read
    """

    name: str
    files: int
    size: int
    begin: int
    end: int
    messages: int
    unreadable: int


def folders(folder: str) -> list[str]:
    """Names of the folders in `set-aside`. Raises ConfigError for a folder that is no data directory."""
    return [each.name for each in _folders(folder)]


def list_folders(folder: str, as_json: bool, say: Callable[[str], None]) -> int:
    """Print what was set aside; the exit status. Raises ConfigError for a folder that is no data directory, OSError."""
    found = [_surveyed(each) for each in _folders(folder)]
    if as_json:
        say(json.dumps({"data": folder, "folders": [each._asdict() for each in found]}, indent=2))
        return DONE
    if found:
        rows = [_TITLES, *(tuple(f"{each:,}" if isinstance(each, int) else each for each in one) for one in found)]
        for line in aligned(rows):
            say(line)
        say(f"next: headgate set-aside export {folder} FOLDER prints the messages; delete a folder that nobody needs")
    else:
        say(f"{folder}: nothing was set aside")
    return DONE


def export(folder: str, name: str, topic: str, say: Callable[[str], None], warn: Callable[[str], None]) -> int:
    """Print the messages of one folder, a JSON object a line; the exit status: 1 when bytes of it cannot be read.

    topic   only messages of this topic; "": of all
    Raises ConfigError for a folder that there is not, OSError.
    """
    place = next((each for each in _folders(folder) if each.name == name.removeprefix(f"{ASIDE}/")), None)
    if place is None:
        there = ", ".join(each.name for each in _folders(folder)) or "nothing"
        raise ConfigError(f"{folder} has no folder {ASIDE}/{name}: there is {there}")
    status = DONE
    for each in _messages(place):
        if isinstance(each, UnreadableBytes):
            warn(f"{ASIDE}/{place.name}: from {each.begin:,} to {each.end:,} of the log nothing can be read")
            status = DAMAGED
        elif topic in ("", each.topic):
            say(json.dumps(_plain(each), ensure_ascii=False, separators=(",", ":")))
    return status


def _plain(found: Record) -> dict[str, object]:
    return {
        "topic": found.topic,
        "queue": found.queue_id,
        "offset": found.queue_offset,
        "position": found.physical_offset,
        "storeMs": found.store_ms,
        "bornMs": found.born_ms,
        "properties": properties.decode(found.properties),
        "sysFlag": found.sys_flag,
        "body": base64.b64encode(found.body).decode(),
    }


def _folders(folder: str) -> list[Path]:
    """The folders in `set-aside`, by name. Raises ConfigError."""
    place = Path(folder)
    if not any((place / part).is_dir() for part in ("log", "promise", "checkpoint", ASIDE)):
        raise ConfigError(f"{folder} is no data directory: it has neither log/ nor {ASIDE}/")
    return sorted(each for each in (place / ASIDE).glob("*") if each.is_dir())


def _segments(place: Path) -> list[tuple[int, Path]]:
    """(position of the first byte, file) of the segments in a folder."""
    return sorted((int(each.name), each) for each in (place / "log").glob("*") if len(each.name) == 20 and each.name.isdigit())


def _messages(place: Path) -> Iterator[Record | UnreadableBytes]:
    for base, path in _segments(place):
        with path.open("rb") as file:
            yield from messages(partial(_read, file), base, path.stat().st_size)


def _read(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


def _surveyed(place: Path) -> AsideFolder:
    files = [each for each in place.rglob("*") if each.is_file()]
    segments = _segments(place)
    begin = segments[0][0] if segments else 0
    end = segments[-1][0] + segments[-1][1].stat().st_size if segments else 0
    count = unreadable = 0
    for each in _messages(place):
        if isinstance(each, UnreadableBytes):
            unreadable += each.end - each.begin
        else:
            count += 1
    return AsideFolder(place.name, len(files), sum(each.stat().st_size for each in files), begin, end, count, unreadable)
