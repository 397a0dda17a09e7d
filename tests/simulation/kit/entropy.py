"""The `Entropy` port in tests: from a seed, fixed, or none."""

from __future__ import annotations

import random


class SeededEntropy:
    """Entropy from the generator of a run, or from a seed of its own."""

    def __init__(self, chance: random.Random | int) -> None:
        self._chance = random.Random(chance) if isinstance(chance, int) else chance

    def random(self) -> float:
        """Entropy.random."""
        return self._chance.random()

    def token(self, size: int) -> bytes:
        """Entropy.token."""
        return self._chance.randbytes(size)


class FixedEntropy:
    """Always the same values: this share, and the bytes 0, 1, 2, …"""

    def __init__(self, share: float = 0.5) -> None:
        self._share = share

    def random(self) -> float:
        """The share."""
        return self._share

    def token(self, size: int) -> bytes:
        """The first bytes."""
        return bytes(range(size))


class NoEntropy:
    """Entropy that must not be asked for."""

    def random(self) -> float:
        """Fails the test."""
        raise AssertionError("a random number was drawn")

    def token(self, size: int) -> bytes:
        """Fails the test."""
        raise AssertionError("random bytes were drawn")
