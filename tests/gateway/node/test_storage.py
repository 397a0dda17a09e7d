"""Which storage engine a node opens: the one that `[store] engine` names, with the settings of that engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from domain.errors import ConfigError
from domain.message.message import Message
from domain.store.store_ports import ReadResult
from domain.store.store_request import ReadRequest
from gateway.node.composition import StorePlace, compose, known
from gateway.node.reference import defaults
from gateway.node.settings import Config, load
from tests.place import place_of
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.entropy import FixedEntropy
from tests.store.outside_engine import OUTSIDE, outside_engine

__all__ = ["outside_engine"]


def read(folder: Path, text: str) -> Config:
    file = folder / "headgate.toml"
    file.write_text(text)
    return load({}, {}, known(), str(file))


def test_a_node_runs_on_an_engine_from_outside_the_tree(tmp_path: Path, outside_engine: str) -> None:
    config = read(tmp_path, f"[store]\nengine = '{OUTSIDE}'\nfolder = 'elsewhere'\n")
    clock = VirtualClock()
    disk = MemoryDisk(clock)
    parts = compose(place_of(config, {}, "127.0.0.1", clock, FixedEntropy()), StorePlace(disk, 1 << 20))
    clock.run_for(50)
    parts.store.log.append([Message("t", b"a", queue_id=0)], None)
    clock.run_for(50)
    found: list[object] = []
    parts.store.log.read(ReadRequest("t", 0, 0, 10, 1 << 20), found.append)
    [result] = found
    assert isinstance(result, ReadResult)
    assert len(result.records) == 1
    assert disk.names("elsewhere/log")
    assert all(name.startswith("elsewhere/") for name in disk.files)


def test_the_settings_are_those_of_the_engine(tmp_path: Path, outside_engine: str) -> None:
    config = read(tmp_path, f"[store]\nengine = '{OUTSIDE}'\n")
    shown = {name: value for name, value, _ in defaults(config, known(), 1) if name.startswith("store.")}
    assert shown == {"store.folder": "here"}
    with pytest.raises(ConfigError, match=r"store\.retention_ms is unknown"):
        defaults(read(tmp_path, f"[store]\nengine = '{OUTSIDE}'\nretention_ms = 1\n"), known(), 1)


def test_the_log_is_the_engine_that_nobody_has_to_name() -> None:
    shown = {name: value for name, value, _ in defaults(Config(), known(), 1 << 20)}
    assert shown["store.engine"] == "log"
    assert shown["store.hot_bytes"] == str(1 << 20)


def test_an_engine_that_is_not_installed_is_refused_with_those_that_are(tmp_path: Path, outside_engine: str) -> None:
    with pytest.raises(ConfigError, match=rf"no such storage engine is installed; installed: {OUTSIDE}, log"):
        defaults(read(tmp_path, "[store]\nengine = 'lgo'\n"), known(), 1)
