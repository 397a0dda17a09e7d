"""Logs of real nodes as files: their bytes, and their damage."""

from __future__ import annotations

import os
from pathlib import Path

from tests.interop.node import Node


def log_files(node: Node) -> list[Path]:
    """The segments of a node's log."""
    return sorted(each for each in (node.data / "log").iterdir() if each.name.isdigit())


def log_of(node: Node, begin: int, end: int) -> bytes:
    """The bytes of a node's log from `begin` to `end`."""
    return b"".join(
        each.read_bytes()[max(begin - int(each.name), 0) : max(end - int(each.name), 0)] for each in log_files(node)
    )


def log_end(node: Node) -> int:
    """Position behind the last byte of a node's log."""
    last = log_files(node)[-1]
    return int(last.name) + last.stat().st_size


def flip(file: Path, at: int) -> None:
    """Flip a bit."""
    handle = os.open(file, os.O_RDWR)
    try:
        byte = os.pread(handle, 1, at)
        os.pwrite(handle, bytes((byte[0] ^ 4,)), at)
    finally:
        os.close(handle)
