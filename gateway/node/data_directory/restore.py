"""`headgate restore BACKUP --data DIR`: a new data directory from a backup, whose log gets a new identity."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from domain.errors import ConfigError
from gateway.node.data_directory.backup import MANIFEST, BackupFacts, lines, read_facts, refuse_outside, whole
from gateway.node.data_directory.offline import ProgressLine, new_incarnation, opened
from gateway.runtime.copying import FileCopies
from gateway.runtime.disk import LOCK_NAME
from gateway.runtime.owner_only import made_folders
from store.offline import backup as content
from store.offline.check import Check, Severity


def restore(source: Path, data: Path, as_json: bool, say: Callable[[str], None], files: FileCopies) -> int:
    """Restore the backup `source`, or the newest one in it, to `data`; the exit status: 0.

    Raises ConfigError, StoreError, OSError.
    """
    folder, facts = _chosen(source)
    _refuse_used(data)
    refuse_outside(facts.files, folder / MANIFEST)
    _refuse_links(folder, facts)
    _refuse_incomplete(folder, facts)
    mark = (folder / content.MARK).read_bytes() if content.MARK in facts.files else b""
    incarnation = new_incarnation()
    made_folders(data)
    try:
        # The mark is first: a node that finds less of the log than it says refuses to start.
        names = sorted(facts.files, key=lambda name: name != content.MARK)
        progress, done = ProgressLine(), 0
        for name in names:
            target, size = data / name, facts.files[name][0]
            if not target.parent.is_dir():
                files.make_folder(target.parent)
            if name == content.MARK:
                files.write(target, content.mark_of(mark, incarnation))
                files.sync_folders(data)
                continue
            files.copy(folder / name, target, size, lambda at: progress("restore", done + at, facts.size))  # noqa: B023
            done += size
        files.sync_folders(data)
        _refuse_damaged(data, folder)
    except Exception:
        with suppress(OSError):
            for entry in list(data.iterdir()):
                if entry.is_dir():
                    files.remove_tree(entry)
                else:
                    entry.unlink()
        raise
    if as_json:
        plain = {**facts._asdict(), "files": len(facts.files), "bytes": facts.size, "incarnation": incarnation if mark else 0}
        say(json.dumps({"backup": str(folder), **plain, "data": str(data), "data_before": facts.data}, indent=2))
        return 0
    for line in lines(folder, facts):
        say(line)
    say(f"restored  {data}: everything that was acknowledged before {facts.made}")
    if mark:
        say(f"identity  {incarnation}: this log goes on apart from the one that was backed up")
    return 0


def _chosen(source: Path) -> tuple[Path, BackupFacts]:
    for folder in [source, *reversed(whole(source))]:
        facts = read_facts(folder)
        if facts is not None:
            return folder, facts
    raise ConfigError(f"{source} is no backup, and holds no whole one: give the folder that headgate backup wrote")


def _refuse_used(data: Path) -> None:
    if not data.exists():
        return
    if not data.is_dir():
        raise ConfigError(f"{data} is no folder: choose another one with --data")
    opened(str(data), lambda disk: None, any_folder=True)  # a node that runs there is detected by its lock
    with suppress(FileNotFoundError):
        (data / LOCK_NAME).unlink()
    held = sorted(os.listdir(data))
    if held:
        raise ConfigError(f"{data} is not empty ({held[0]}): move it away, or choose another folder with --data")


def _refuse_links(folder: Path, facts: BackupFacts) -> None:
    """A symbolic link below the folder leads to what is no part of the backup."""
    for name in facts.files:
        path = folder
        for part in name.split("/"):
            path /= part
            if path.is_symlink():
                raise ConfigError(
                    f"{path} is a symbolic link: headgate backup makes none. Nothing was restored; use another backup"
                )


def _refuse_incomplete(folder: Path, facts: BackupFacts) -> None:
    for name, (size, _) in facts.files.items():
        path = folder / name
        there = path.stat().st_size if path.is_file() else -1
        if there != size:
            found = "is missing" if there < 0 else f"has {there:,} bytes instead of {size:,}"
            raise ConfigError(f"{path} {found}: the backup is damaged; use another one")


def _refuse_damaged(data: Path, folder: Path) -> None:
    findings = opened(str(data), lambda disk: Check(disk, ProgressLine()).run())
    for found in findings:
        if found.severity is not Severity.NOTE:
            raise ConfigError(
                f"{folder}/{found.file} is damaged at bytes {found.begin:,} to {found.end:,}: {found.cause}. "
                "Nothing was restored; use another backup, or copy this one and run headgate repair on the copy"
            )
