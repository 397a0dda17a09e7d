"""The table of docs/model.md: what the clients of each protocol can set and get of a message."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "model.md"
WORDS = {"both": (True, True), "send": (True, False), "receive": (False, True), "no": (False, False)}


def table() -> dict[str, dict[str, tuple[bool, bool]]]:
    """Protocol -> field -> (its clients can set it, they can get it)."""
    rows: list[list[str]] = []
    for line in PAGE.read_text().splitlines():
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            break
    head, _, *fields = rows
    found: dict[str, dict[str, tuple[bool, bool]]] = {protocol: {} for protocol in head[1:]}
    for field, *cells in fields:
        for protocol, word in zip(head[1:], cells, strict=True):
            found[protocol][field] = WORDS[word]
    return found
