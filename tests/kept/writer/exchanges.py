"""The frames of all exchanges, as the tree writes them in which this runs."""

from __future__ import annotations

from collections.abc import Iterator

from tests.kept.exchanges.exchange import Exchanges
from tests.kept.exchanges.families import FAMILIES
from tests.kept.shown import shown
from tests.kept.vectors import Vector, save


def _vectors(exchanges: Exchanges) -> Iterator[Vector]:
    for name, each in exchanges.items():
        data = each.made()
        yield Vector(name, shown(each.read(data)), data)


def main() -> None:
    """Write a file a family."""
    for family, exchanges in FAMILIES.items():
        save(family, "frames between nodes", _vectors(exchanges))
