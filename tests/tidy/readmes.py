"""The table of files in a folder's README, made from the first lines of its modules.

    python -m tests.tidy.readmes -w    writes the tables

A README has one table, between the lines BEGIN and END. It names the modules of the folder and of those folders below it that
have no README of their own.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from tests.tidy.source import ROOT, sources

FOLDERS: Final = ("controller", "domain", "gateway", "nameserver", "protocols", "store")
BEGIN: Final = "<!-- The files, by the first lines of their modules: python -m tests.tidy.readmes -w -->"
END: Final = "<!-- The end of the files. -->"


def pages() -> list[Path]:
    """The READMEs that have a table of files."""
    found = sorted(page for folder in FOLDERS for page in (ROOT / folder).rglob("README.md"))
    return [page for page in found if BEGIN in page.read_text("utf-8")]


@cache
def first_lines() -> dict[str, str]:
    """Path of a module -> the first line of its docstring, as a cell of a table."""
    texts = {source.path: ast.get_docstring(source.tree) or "" for source in sources()}
    return {path: text.partition("\n")[0].removesuffix(".").replace("|", "\\|") for path, text in texts.items()}


def first_line(module: Path) -> str:
    """The first line of a module, as a cell of a table."""
    return first_lines()[str(module.relative_to(ROOT))]


def rows(folder: Path, prefix: str = "") -> Iterator[str]:
    """The rows of the modules of `folder`, which the README calls `prefix`."""
    for path in sorted(folder.iterdir(), key=lambda path: (path.is_dir(), path.name)):
        name = prefix + path.name
        if path.suffix == ".py" and path.stem != "__init__":
            yield f"| `{name}` | {first_line(path)} |"
        elif (path / "__init__.py").exists():
            if (path / "README.md").exists():
                yield f"| [`{name}/`]({name}/README.md) | {first_line(path / '__init__.py')} |"
            else:
                yield f"| `{name}/` | {first_line(path / '__init__.py')} |"
                yield from rows(path, f"{name}/")


def written(page: Path) -> str:
    """The text of a README with the table as it has to be. Raises ValueError when BEGIN or END is missing or stands twice."""
    before, middle = page.read_text("utf-8").split(BEGIN)
    _, after = middle.split(END)
    table = "\n".join(["| File | What it is |", "|---|---|", *rows(page.parent)])
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


if __name__ == "__main__":
    if sys.argv[1:] != ["-w"]:
        sys.exit("usage: python -m tests.tidy.readmes -w")
    for stale in pages():
        stale.write_text(written(stale), "utf-8")
