"""Randomness from the operating system."""

from __future__ import annotations

import os
import random
from typing import final


@final
class SystemEntropy:
    """The `Entropy` port: unpredictable tokens, and a seeded generator for values that need not be unpredictable."""

    __slots__ = ("_random",)

    def __init__(self) -> None:
        self._random = random.Random(os.urandom(16))

    def random(self) -> float:
        """0 <= x < 1."""
        return self._random.random()

    def token(self, size: int) -> bytes:
        """`size` unpredictable bytes."""
        return os.urandom(size)
