"""A storage engine from outside the tree: a module and an entry point in a folder of their own, installed while a test runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from gateway.node.storage import STORES

OUTSIDE = "in-folder"
MODULE = '''
"""The log of the bundled engine, with all its files in a folder that a setting names."""

from dataclasses import dataclass

from domain.message.message import LOCAL_HOST
from domain.store.storage_engine import StorageEngine
from domain.topic.topic import Durability
from store.settings import StoreSettings
from store.engine import open_store


@dataclass(frozen=True)
class InFolderSettings:
    broker: str = "broker-a"
    store_host: bytes = LOCAL_HOST
    durability: Durability = Durability.FLUSHED
    folder: str = "here"


class Folder:
    def __init__(self, disk, name):
        self._disk, self._name = disk, name

    def open(self, name):
        return self._disk.open(f"{self._name}/{name}")

    def names(self, folder):
        return self._disk.names(f"{self._name}/{folder}" if folder else self._name)

    def read_all(self, name):
        return self._disk.read_all(f"{self._name}/{name}")

    def replace(self, name, data):
        self._disk.replace(f"{self._name}/{name}", data)

    def size(self, name):
        return self._disk.size(f"{self._name}/{name}")

    def rename(self, old, new):
        self._disk.rename(f"{self._name}/{old}", f"{self._name}/{new}")

    def rename_soon(self, old, new, done):
        self._disk.rename_soon(f"{self._name}/{old}", f"{self._name}/{new}", done)

    def replace_soon(self, name, data, done):
        self._disk.replace_soon(f"{self._name}/{name}", data, done)

    def remove(self, name):
        self._disk.remove(f"{self._name}/{name}")

    def free_ratio(self):
        return self._disk.free_ratio()


def open_in_folder(disk, clock, settings, report):
    config = StoreSettings(settings.broker, settings.store_host, settings.durability)
    return open_store(Folder(disk, settings.folder), clock, config, report)


ENGINE = StorageEngine(InFolderSettings, open_in_folder)
'''


def installed() -> list[str]:
    return sorted({point.name for point in entry_points(group=STORES)})


@pytest.fixture
def outside_engine(tmp_path: Path) -> Iterator[str]:
    """The engine is installed: a module and its metadata, as a wheel leaves them, in a folder on the path."""
    (tmp_path / "headgate_in_folder.py").write_text(MODULE)
    record = tmp_path / "headgate_in_folder-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: headgate-in-folder\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text(f"[{STORES}]\n{OUTSIDE} = headgate_in_folder:ENGINE\n")
    sys.path.insert(0, str(tmp_path))
    yield OUTSIDE
    sys.path.remove(str(tmp_path))
    sys.modules.pop("headgate_in_folder", None)
