"""Writes the kept files anew with the code of commit 44998bdc: `python -m tests.kept.make [PART]...`; see README.md.

The tree of the commit goes to a temporary folder, with this folder in it. The files must come out as they are.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

COMMIT: Final = "44998bdc"
HERE: Final = Path(__file__).parent


def main(parts: list[str]) -> None:
    """Write the files of these parts; [] for all."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", COMMIT], cwd=HERE.parent.parent, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        inside = Path(folder, "tests", "kept")
        shutil.copytree(HERE, inside, ignore=shutil.ignore_patterns("__pycache__"))
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONHASHSEED": "0", "HEADGATE_PURE": "1"}
        subprocess.run([sys.executable, "-m", "tests.kept.writer", *parts], cwd=folder, env=environment, check=True)
        shutil.copytree(inside / "data", HERE / "data", dirs_exist_ok=True)


if __name__ == "__main__":
    main(sys.argv[1:])
