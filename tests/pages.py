"""What stands in pages of the documentation: code blocks, and code in lines. Tests type it as it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
_FENCE = "```"
_CODE = re.compile(r"`([^`]+)`")


class Block(NamedTuple):
    """A code block.

    heading    the heading above it, without its marks
    language   what stands behind the fence; "": nothing
    text       its lines
    """

    heading: str
    language: str
    text: str


class Page:
    """A page, by its path below the root of the repository."""

    def __init__(self, path: str) -> None:
        self.blocks: list[Block] = []
        prose: list[str] = []
        heading, language, block = "", "", list[str]()
        inside = False
        for line in (ROOT / path).read_text(encoding="utf-8").splitlines():
            if line.startswith(_FENCE):
                if inside:
                    self.blocks.append(Block(heading, language, "\n".join(block) + "\n"))
                inside, language, block = not inside, line[len(_FENCE) :].strip(), []
            elif inside:
                block.append(line)
            elif line.startswith("#"):
                heading = line.lstrip("#").strip()
            else:
                prose.append(line)
        self._prose = " ".join(prose)

    def block(self, heading: str, language: str) -> str:
        """The text of the only block of a language below a heading."""
        found = [each.text for each in self.blocks if (each.heading, each.language) == (heading, language)]
        assert len(found) == 1, f"{len(found)} blocks of {language!r} below {heading!r}"
        return found[0]

    def commands(self, program: str) -> list[str]:
        """All lines of blocks, and all code in lines, that begin with `program`, in their order; comments are left out."""
        lines = [line.removeprefix("$ ") for each in self.blocks if not each.language for line in each.text.splitlines()]
        lines += _CODE.findall(self._prose)
        return [typed for line in lines if line.startswith(program + " ") and (typed := _without_comment(line))]


def _without_comment(line: str) -> str:
    return re.split(r"\s+#\s", line, maxsplit=1)[0].strip()


def arguments(command: str) -> list[str]:
    """A command as a shell splits it; what is behind `>` is left out."""
    return shlex.split(command.partition(" > ")[0])
