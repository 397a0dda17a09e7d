"""Writes all kept files: `python -m tests.kept.writer [PART]...`, with the tree of 44998bdc as the working directory."""

from __future__ import annotations

import importlib
import sys

PARTS = ("kinds", "exchanges", "store", "cluster")

for part in sys.argv[1:] or PARTS:
    importlib.import_module(f"tests.kept.writer.{part}").main()
