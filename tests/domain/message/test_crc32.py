"""CRC-32 is that of zlib, over any bytes in any pieces: what other versions of the program have written is checked with it."""

from __future__ import annotations

import random
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from domain.message.crc32 import crc32

ROOT = Path(__file__).resolve().parents[3]


def test_the_check_value_of_the_catalogue() -> None:
    """ISO 3309, as catalogues of CRCs have it."""
    assert crc32(b"123456789") == 0xCBF43926


@pytest.mark.parametrize("seed", range(4))
def test_it_is_that_of_zlib_whatever_the_length_the_place_and_the_pieces(seed: int) -> None:
    chance = random.Random(seed)
    data = chance.randbytes(70_000)
    lengths = [*range(300), *(chance.randrange(300, 60_000) for _ in range(60))]
    for length in lengths:
        at = chance.randrange(70)
        cut = chance.randrange(length + 1)
        part = memoryview(data)[at : at + length]
        assert crc32(part) == zlib.crc32(part)
        assert crc32(bytearray(part[cut:]), crc32(bytes(part[:cut]))) == zlib.crc32(part)


def test_it_is_that_of_zlib_itself_where_nothing_else_is_installed() -> None:
    """Workers of Spark have the bundle, and what is installed on their machines."""
    code = "import sys, zlib; sys.modules['zlib_ng'] = None; from domain.message.crc32 import crc32; print(crc32 is zlib.crc32)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["True"]
