"""Whether the long runs were asked for, with `make soak`."""

from __future__ import annotations

import os

SOAK = bool(os.environ.get("SOAK"))
