"""A small tmpfs as data directory of one node, which a test fills and frees."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

SIZE_MIB: Final = 256
FILLER: Final = "filler-of-the-test"


class SmallVolume:
    """A tmpfs mounted at `folder`. `missing`: why it is not; "": it is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.missing = ""
        self.is_full = False
        folder.mkdir(parents=True)
        if os.geteuid() != 0 or shutil.which("mount") is None:
            self.missing = "mounting a small volume needs root and mount"
            return
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "tmpfs", str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            self.missing = f"a small volume cannot be mounted: {done.stderr.strip()[-200:]}"

    def fill(self) -> None:
        """Leave no byte on the volume. Never without a mount: that would fill the machine's disk."""
        if self.missing:
            return
        self.is_full = True
        with (self.folder / FILLER).open("wb") as file:
            try:
                while True:
                    file.write(bytes(1 << 20))
                    file.flush()
            except OSError:
                return

    def give(self, size: int) -> None:
        """Give `size` bytes of room back, of what `fill` took."""
        if self.is_full:
            os.truncate(self.folder / FILLER, (self.folder / FILLER).stat().st_size - size)

    def free(self) -> None:
        """Give the room back."""
        self.is_full = False
        (self.folder / FILLER).unlink(missing_ok=True)

    def close(self) -> None:
        """Unmount."""
        if not self.missing:
            subprocess.run(["umount", "-l", str(self.folder)], check=False)
