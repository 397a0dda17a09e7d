"""Randomness from the operating system."""

from __future__ import annotations

import os
import random
from typing import final


@final
class SystemEntropy:
    """The `Entropy` port: unpredictable tokens, and a generator seeded once for what only has to spread."""

    __slots__ = ("_random",)

    def __init__(self) -> None:
        self._random = random.Random(os.urandom(16))

    def random(self) -> float:
        """0 <= x < 1."""
        return self._random.random()

    def token(self, size: int) -> bytes:
        """`size` bytes that nobody can foresee."""
        return os.urandom(size)
