"""`headgate backup TARGET`: a copy of a data directory, of a running node or of a stopped one.

    TARGET/lock                          one backup at a time
    TARGET/000002-20261122T073000Z/      a whole backup: a data directory, and backup.json with its facts and files
    TARGET/000003-20261122T083000Z.new/  one that is being made, or was interrupted; the next run deletes it
    TARGET/000001-20261121T073000Z.old/  one that is being deleted

A backup gets its name when it is checked and durable, so an interruption leaves those before it. Files that have not changed
since the newest backup are hard links to its copies.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from domain.errors import ConfigError
from gateway.node.data_directory.offline import ProgressLine, opened
from gateway.node.data_directory.plan_source import PlanSource
from gateway.runtime.copying import FileCopies
from gateway.runtime.owner_only import FILE_MODE, close_to_others, made_folders
from store.offline import backup as content
from store.offline.check import Check, Severity

MANIFEST: Final = "backup.json"
FORMAT: Final = 1
_LOCK: Final = "lock"
_WHOLE: Final = re.compile(r"\d{6,}-\d{8}T\d{6}Z")
_PART: Final = re.compile(r"\d{6,}-\d{8}T\d{6}Z\.(new|old)")
_TLS: Final = "tls"


class BackupFacts(NamedTuple):
    """The content of `backup.json`.

    made          when it was begun, ISO 8601, UTC
    data          the data directory that it is of
    incarnation   identity of the log
    first         position of the first byte of the log
    position      position up to which it has the log
    files         name -> [bytes, nanoseconds of the last change of the file that was copied]
    """

    made: str
    data: str
    incarnation: int
    first: int
    position: int
    records: int
    files: dict[str, list[int]]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(size for size, _ in self.files.values())


class Copied(NamedTuple):
    """Result of one run of a backup.

    files   name -> [bytes, nanoseconds of the last change], of all files
    added   number of files that were copied; the others are links
    size    bytes that were copied
    """

    files: dict[str, list[int]]
    added: int
    size: int


def read_facts(folder: Path) -> BackupFacts | None:
    """The facts of the backup in `folder`; None when there is none, or when it is not whole."""
    try:
        found = json.loads((folder / MANIFEST).read_bytes())
        if found.pop("format") != FORMAT:
            raise ConfigError(f"{folder} was made by another version of headgate: use that version")
        facts = BackupFacts(**found)
        rows = facts.files.values()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return facts if all(isinstance(row, list) and [type(number) for number in row] == [int, int] for row in rows) else None


def refuse_outside(names: Iterable[str], source: object) -> None:
    """Raise ConfigError when one of the names, which `source` has, is not that of a file in or below a folder."""
    for name in names:
        if "\0" in name or not {"", ".", ".."}.isdisjoint(name.split("/")):
            raise ConfigError(
                f"{source} has the name {name!r}, which is no file inside the folder: it was not written by headgate. "
                "Nothing was copied"
            )


def whole(target: Path) -> list[Path]:
    """The whole backups in `target`, oldest first."""
    if not target.is_dir():
        return []
    names = [entry.name for entry in os.scandir(target) if _WHOLE.fullmatch(entry.name)]
    names.sort(key=lambda name: int(name.partition("-")[0]))
    return [target / name for name in names if read_facts(target / name) is not None]


def backup(
    target: Path, source: AbstractContextManager[PlanSource], keep: int, as_json: bool, say: Callable[[str], None],
    files: FileCopies,
) -> int:  # fmt: skip
    """Add a backup to `target`, and keep the newest `keep`; the exit status: 0. Raises ConfigError, StoreError, OSError."""
    with _locked(target):
        for path in [each for each in target.iterdir() if _PART.fullmatch(each.name)]:
            files.remove_tree(path)
        made, before = time.gmtime(), whole(target)
        serial = 1 + max((int(path.name.partition("-")[0]) for path in before), default=0)
        path = target / f"{serial:06d}-{time.strftime('%Y%m%dT%H%M%SZ', made)}"
        fresh = path.with_name(f"{path.name}.new")
        files.make_folder(fresh)
        try:
            with source as found:
                _refuse_unfit(target, found, before[-1] if before else None)
                copied = _copy(found, fresh, before[-1] if before else None, files)
            plan = found.plan
            if plan.mark:
                _make_folder(files, fresh, content.MARK)
                files.write(fresh / content.MARK, plan.mark)
                copied.files[content.MARK] = [len(plan.mark), 0]
            records, warning = _verified(fresh, copied, files)
            facts = BackupFacts(
                time.strftime("%Y-%m-%dT%H:%M:%SZ", made), str(found.folder), plan.incarnation, plan.first, plan.position,
                records, copied.files,
            )  # fmt: skip
            files.write(fresh / MANIFEST, json.dumps({"format": FORMAT, **facts._asdict()}, indent=1).encode())
            files.sync_folders(fresh)
            files.rename(fresh, path)
        except BaseException:
            with suppress(OSError):
                files.remove_tree(fresh)
            raise
        for old in before[: max(len(before) + 1 - keep, 0)]:
            gone = old.with_name(f"{old.name}.old")
            files.rename(old, gone)
            files.remove_tree(gone)
    _report(path, facts, copied, warning, as_json, say)
    return 0


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    """Make `target` where it is missing, and lock it. Raises ConfigError when it is in use, or holds something else."""
    made_folders(target)
    others = [name for name in os.listdir(target) if name != _LOCK and not _WHOLE.fullmatch(name) and not _PART.fullmatch(name)]
    if others:
        raise ConfigError(f"{target} holds other files ({min(others)}): choose an empty folder, or one with backups")
    handle = os.open(target / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"another backup into {target} is under way: wait until it has ended") from None
        close_to_others(target, lambda name: True, True)
        yield
    finally:
        os.close(handle)


def _refuse_unfit(target: Path, found: PlanSource, newest: Path | None) -> None:
    """Refuse a target that is part of the data directory, or has the backups of another log, or too little room."""
    if target.resolve().is_relative_to(found.folder.resolve()):
        raise ConfigError(f"{target} is in the data directory {found.folder}: choose a folder elsewhere, on another disk")
    before = None if newest is None else read_facts(newest)
    if before is not None and before.incarnation != found.plan.incarnation:
        raise ConfigError(
            f"{newest} is of another log (identity {before.incarnation}; this one has {found.plan.incarnation}): "
            "it was restored, repaired or made anew since; choose an empty folder, and keep that one as long as you need it"
        )


def _copy(found: PlanSource, fresh: Path, newest: Path | None, files: FileCopies) -> Copied:
    """Copy the files of a plan, or link those that the newest backup has. Raises OSError, ConfigError."""
    facts = None if newest is None else read_facts(newest)
    before = {} if facts is None else facts.files
    wanted = list(found.plan.files)
    refuse_outside((name for name, _ in wanted), f"the node's list of files in {found.folder}")
    tls = found.folder / _TLS
    if tls.is_dir():
        wanted += [(f"{_TLS}/{entry.name}", entry.stat().st_size) for entry in os.scandir(tls) if entry.is_file()]
    todo: list[tuple[str, int]] = []
    result: dict[str, list[int]] = {}
    for name, size in wanted:
        seen = (found.folder / name).stat()
        result[name] = [size, seen.st_mtime_ns if seen.st_size == size else 0]
        _make_folder(files, fresh, name)
        if newest is None or before.get(name) != result[name] or not result[name][1]:
            todo.append((name, size))
            continue
        try:
            files.link(newest / name, fresh / name)
        except OSError:  # this file system has no links, or a file has too many
            todo.append((name, size))
    all_bytes, free = sum(size for _, size in todo), shutil.disk_usage(fresh).free
    if all_bytes > free:
        raise ConfigError(f"{fresh.parent} has {free:,} bytes free, and the backup needs {all_bytes:,}: free space there")
    progress, done = ProgressLine(), 0
    for name, size in todo:
        try:
            files.copy(found.folder / name, fresh / name, size, lambda at: progress("copy", done + at, all_bytes))  # noqa: B023
        except EOFError as error:
            raise ConfigError(f"{error}: was the node restarted meanwhile? Run the backup again") from error
        done += size
    return Copied(result, len(todo), all_bytes)


def _make_folder(files: FileCopies, fresh: Path, name: str) -> None:
    folder = (fresh / name).parent
    if not folder.is_dir():
        files.make_folder(folder)


def _verified(fresh: Path, copied: Copied, files: FileCopies) -> tuple[int, str]:
    """(records of the log, a warning or "") of a copy that was checked. Raises ConfigError when a record is damaged."""
    warning = ""
    while True:
        findings, records = opened(str(fresh), lambda disk: (Check(disk, ProgressLine()).run(), content.records(disk)))
        (fresh / _LOCK).unlink()
        serious = [found for found in findings if found.severity is not Severity.NOTE]
        if not serious:
            return records, warning
        worst = next((found for found in serious if found.severity is Severity.DAMAGE), None)
        if worst is not None or warning:
            named = worst or serious[0]
            raise ConfigError(
                f"the copy of {named.file} is damaged at bytes {named.begin:,} to {named.end:,}: {named.cause}. Nothing was "
                "changed in the target; stop the node and run headgate check on its data directory"
            )
        warning = f"{serious[0].file} is damaged ({serious[0].cause}): the backup has the log without index and checkpoints"
        for folder in content.DERIVED:
            if (fresh / folder).is_dir():
                files.remove_tree(fresh / folder)
        for name in [each for each in copied.files if each.startswith(tuple(f"{part}/" for part in content.DERIVED))]:
            del copied.files[name]


def _report(path: Path, facts: BackupFacts, copied: Copied, warning: str, as_json: bool, say: Callable[[str], None]) -> None:
    if as_json:
        added = {"copied": copied.added, "copied_bytes": copied.size, "warning": warning}
        plain: dict[str, Any] = {**facts._asdict(), "files": len(facts.files), "bytes": facts.size}
        say(json.dumps({"backup": str(path), **plain, **added}, indent=2))
        return
    for line in lines(path, facts):
        say(line)
    rest = "; the others are those of the backup before" if copied.added < len(facts.files) else ""
    say(f"copied    {copied.added} files, {copied.size:,} bytes{rest}")
    if warning:
        say(f"warning   {warning}")


def lines(path: Path, facts: BackupFacts) -> list[str]:
    """Lines about a backup, for a person."""
    return [
        f"backup    {path}",
        f"made      {facts.made}, of {facts.data}",
        f"log       {facts.records:,} records, positions {facts.first:,} to {facts.position:,}, identity {facts.incarnation}",
        f"files     {len(facts.files)}, {facts.size:,} bytes",
    ]
