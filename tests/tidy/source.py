"""The source files of the tree, parsed once."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("domain", "protocols", "store", "nameserver", "controller", "gateway")


@dataclass(frozen=True)
class Source:
    """One file.

    path   below the root
    text   its content
    tree   its syntax tree
    """

    path: str
    text: str
    tree: ast.Module

    def imports(self) -> list[tuple[int, str]]:
        """(line, module) of every import in the file; a module of ours that is imported by name comes out as a module."""
        found: list[tuple[int, str]] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found += [(node.lineno, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                for alias in node.names:
                    deeper = f"{node.module}.{alias.name}"
                    path = ROOT.joinpath(*deeper.split("."))
                    is_module = path.with_suffix(".py").exists() or path.is_dir()
                    found.append((node.lineno, deeper if is_module else node.module))
        return found


@cache
def sources() -> tuple[Source, ...]:
    """The files that are installed."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return tuple(_read(path) for path in [*paths, ROOT / "pyspark_headgate.py"] if path.exists())


@cache
def companions() -> tuple[Source, ...]:
    """Tests, examples and benchmarks."""
    return tuple(
        _read(path) for folder in ("tests", "examples", "benchmarks") for path in sorted((ROOT / folder).rglob("*.py"))
    )


def _read(path: Path) -> Source:
    text = path.read_text("utf-8")
    return Source(str(path.relative_to(ROOT)), text, ast.parse(text))
