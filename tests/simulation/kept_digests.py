"""Files with the digests of runs: a change that only moves or renames leaves them as they are."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

COMPARE: Final = "-c"
REWRITE: Final = "-w"
ENVIRONMENT: Final = {"PYTHONHASHSEED": "0", "HEADGATE_PURE": "1"}
"""What the kept digests are made with."""


def again_as_kept(module: str, words: list[str]) -> None:
    """Begin `module` again in ENVIRONMENT, when it compares or rewrites and is in another one."""
    if (COMPARE in words or REWRITE in words) and any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
        os.execve(sys.executable, [sys.executable, "-m", module, *words], {**os.environ, **ENVIRONMENT})


def load(path: Path) -> dict[str, str]:
    """Name of a run -> its digest."""
    return dict(line.rsplit(" ", 1) for line in path.read_text(encoding="utf-8").splitlines())


def settle(path: Path, found: Mapping[str, str], words: list[str]) -> int:
    """Compare with the file, or write it anew. Returns how many digests differ."""
    if REWRITE in words:
        path.write_text("".join(f"{name} {digest}\n" for name, digest in found.items()), encoding="utf-8")
        return 0
    kept = load(path)
    others = [name for name, digest in found.items() if kept.get(name) != digest]
    for name in others:
        print(f"{name}: {found[name]}, and {path.name} has {kept.get(name, 'none')}")
    print(f"{len(found) - len(others)} of {len(found)} digests are those of {path.name}")
    return len(others)
