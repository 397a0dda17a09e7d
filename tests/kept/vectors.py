"""Kept frames: files of vectors, each a name, a value in a readable form, and the bytes that stand for it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

DATA: Final = Path(__file__).parent / "data"


class Vector(NamedTuple):
    """One frame, or a part of one.

    name    unique in its file
    value   as `shown` shows what was read from the bytes
    data    the bytes
    """

    name: str
    value: Any
    data: bytes


def load(family: str) -> list[Vector]:
    """The vectors of one file."""
    found = json.loads((DATA / f"{family}.json").read_text(encoding="utf-8"))
    return [Vector(name, value, bytes.fromhex(data)) for name, value, data in found["vectors"]]


def save(family: str, about: str, vectors: Iterable[Vector]) -> None:
    """Write a file, a vector a line."""
    lines = ",\n".join(
        json.dumps([each.name, each.value, each.data.hex()], ensure_ascii=False, separators=(",", ":")) for each in vectors
    )
    text = f'{{"about":{json.dumps(about)},\n"vectors":[\n{lines}\n]}}\n'
    (DATA / f"{family}.json").write_text(text, encoding="utf-8")
