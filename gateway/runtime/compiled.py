"""Compiled modules of a working tree: used only while they are those of the present sources.

`python setup.py compile` puts them into `.compiled/`, apart from the sources, with a record of every file that they were
made from. A group whose sources have changed since is left aside, whole: an edited `.py` runs uncompiled.
HEADGATE_PURE=1 leaves all of them aside, an installed wheel's too; HEADGATE_REQUIRE_COMPILED=1 refuses to start without them.

`./up` does not wait for the compilation: a process beside the server holds `.compiled.lock` until it has ended
(scripts/prepare). Its modules are used from the next start on.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sys
from collections.abc import Container, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final, final

from domain.errors import ConfigError

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ".compiled"
LOCK: Final = ".compiled.lock"
LOG: Final = ".compiled.log"
"""Output of a compilation; the file is left when nothing could be compiled."""


@final
class Compiled(MetaPathFinder):
    """Finds compiled modules by name, before the path is looked through."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self.files = dict(files)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The compiled module `fullname`, or None."""
        file = self.files.get(fullname)
        if file is None:
            return None
        return spec_from_file_location(fullname, file, loader=ExtensionFileLoader(fullname, str(file)))


@final
class Pure(MetaPathFinder):
    """Finds the source of our modules even where a compiled one lies beside it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the spec of the source file of module `fullname`; None for a package, and for a module of another tree."""
        file = ROOT.joinpath(*fullname.split(".")).with_suffix(".py")
        if path is None or not file.is_file():
            return None
        return spec_from_file_location(fullname, file)


OURS: Final = ("controller", "domain", "gateway", "nameserver", "protocols", "store")


def activate(root: Path = ROOT) -> str:
    """Use the compiled modules; return one line for a person with their number. Once, before the modules are imported.

    Raises ConfigError when HEADGATE_REQUIRE_COMPILED=1 and something is missing.
    """
    if os.environ.get("HEADGATE_PURE") == "1":
        sys.meta_path.insert(0, Pure())
        return "pure Python (HEADGATE_PURE=1)"
    files, lines = _found(root, sys.modules)
    if files:
        sys.meta_path.insert(0, Compiled(files))
    if lines and os.environ.get("HEADGATE_REQUIRE_COMPILED") == "1":
        raise ConfigError(f"HEADGATE_REQUIRE_COMPILED=1: {'; '.join(lines)}; run 'make compile'")
    if lines and under_way(root):
        lines.append("a compilation is under way, for the next start")
    return "; ".join([f"{len(files)} compiled modules", *lines])


def in_use() -> int:
    """Number of our modules that run as machine code."""
    files = [
        getattr(module, "__file__", None) or "" for name, module in list(sys.modules.items()) if name.split(".")[0] in OURS
    ]
    return sum(file.endswith(".so") for file in files)


def under_way(root: Path = ROOT) -> bool:
    """True while a process compiles this tree and this process would use the compiled modules."""
    if os.environ.get("HEADGATE_PURE") == "1":
        return False
    try:
        with (root / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def at_next_start(root: Path = ROOT) -> str:
    """One line for a person with the number of modules compiled now, whether this process uses them or not."""
    files, lines = _found(root, ())
    if lines and (root / LOG).exists():
        lines.append(f"the reason is in {LOG}")
    return "; ".join([f"{len(files)} compiled modules", *lines])


def _found(root: Path, imported: Container[str]) -> tuple[dict[str, Path], list[str]]:
    try:
        record = json.loads((root / FOLDER / "record.json").read_text("utf-8"))
    except (OSError, ValueError):
        return _beside(root)
    if record["python"] != sys.implementation.cache_tag:
        return {}, [f"compiled for {record['python']}, which this Python is not"]
    sums = _sums(root / FOLDER / "inputs.sha256")
    files: dict[str, Path] = {}
    lines = [f"{group} not compiled ({why})" for group, why in record["why"].items()]
    for group, facts in record["groups"].items():
        changed = [name for name in facts["inputs"] if _sum(root / name) != sums.get(name)]
        loaded = [name for name in facts["modules"] if name in imported]
        if changed or loaded:
            why = f"{changed[0]} has changed since" if changed else f"{loaded[0]} is imported already"
            lines.append(f"{group} compiled but not used, {why}")
            continue
        for name in facts["modules"]:
            files[name] = root.joinpath(FOLDER, *name.split(".")).with_suffix(EXTENSION_SUFFIXES[0])
    return files, lines


def _beside(root: Path) -> tuple[dict[str, Path], list[str]]:
    """No record: an installed wheel, where the compiled modules lie beside the sources and are found by themselves."""
    beside = root.joinpath("domain", "record").with_suffix(EXTENSION_SUFFIXES[0])
    return {}, [] if beside.exists() else ["nothing is compiled"]


def _sums(path: Path) -> dict[str, str]:
    lines = (line.split("  ", 1) for line in path.read_text("utf-8").splitlines())
    return {name: digest for digest, name in lines}


def _sum(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
