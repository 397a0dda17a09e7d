"""What later versions than 44998bdc write otherwise. Run in the tree of 9b7b43c7 or a later one, and only for what is new."""

from __future__ import annotations

from tests.kept.exchanges.since import SINCE
from tests.kept.shown import shown
from tests.kept.vectors import Vector, save


def main() -> None:
    """Write the file."""
    vectors = [Vector(name, shown(each.read(each.made())), each.made()) for name, each in SINCE.items()]
    save("since", "frames as 9b7b43c7 writes them, where 44998bdc writes others or none", vectors)
