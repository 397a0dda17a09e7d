"""The Spark source as one zip file for `--py-files`: `python -m gateway.connectors.spark.bundle [FILE]`.

Pure Python modules that a worker imports, without the server. pyarrow, numpy and orjson must be installed on the machines, and
lz4 and zstandard where bodies are compressed with them.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Final

PARTS: Final = (
    "pyspark_headgate.py",
    "domain",
    "protocols/__init__.py",
    "protocols/compression.py",
    "protocols/remoting/__init__.py",
    "protocols/remoting/wire/__init__.py",
    "protocols/remoting/wire/frame.py",
    "protocols/remoting/wire/header.py",
    "gateway/__init__.py",
    "gateway/client",
    "gateway/connectors",
)
"""Files and folders of the bundle, relative to the root of the project."""
EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The time stamp of every entry, so that equal sources make equal zip files."""


def sources(root: Path) -> list[Path]:
    """The files of the bundle, relative to `root`, sorted."""
    found: set[Path] = set()
    for part in PARTS:
        place = root / part
        found.update(place.rglob("*.py") if place.is_dir() else [place])
    return sorted(path.relative_to(root) for path in found)


def write(target: Path, root: Path) -> int:
    """Write the zip file. Returns the number of files in it. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    files = sources(root)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bundle:
        for path in files:
            bundle.writestr(zipfile.ZipInfo(path.as_posix(), EPOCH), (root / path).read_bytes(), zipfile.ZIP_DEFLATED)
    return len(files)


if __name__ == "__main__":
    to = Path(sys.argv[1] if len(sys.argv) > 1 else "dist/headgate-spark.zip")
    print(f"{to}: {write(to, Path(__file__).resolve().parents[3])} files")
