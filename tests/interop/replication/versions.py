"""Source trees of earlier versions, out of the history."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.interop.node import ROOT, Node


def tree_of(commit: str, folder: Path) -> Path:
    """The tree of a commit below `folder`; skips the test when the history is too short to have it.

    What is compiled here is used there too, as far as the sources are the same: the checksums decide.
    """
    found = subprocess.run(["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, capture_output=True, check=False)
    if found.returncode:
        pytest.skip(f"NOT TESTED: the history is too short to have the version before, {commit}: git fetch --unshallow")
    archive, tree = folder / "before.tar", folder / "before"
    subprocess.run(["git", "archive", "-o", str(archive), commit], cwd=ROOT, check=True)
    with tarfile.open(archive) as opened:
        opened.extractall(tree, filter="data")
    archive.unlink()
    if (ROOT / ".compiled").is_dir():
        (tree / ".compiled").symlink_to(ROOT / ".compiled")
    return tree


def of_version(tree: Path, nodes: Sequence[Node], unknown_ports: frozenset[str] = frozenset({"vip"})) -> None:
    """From their next start on these nodes are of another version, which does not have some of the ports."""
    for node in nodes:
        node.root = tree
        node.unknown_ports = frozenset() if tree == ROOT else unknown_ports


def of_this_version(nodes: Sequence[Node]) -> None:
    """From their next start on these nodes are of this version."""
    of_version(ROOT, nodes)
