"""Names in a manifest or in the answer of a node: `headgate restore` and `headgate backup` write inside their folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from domain.errors import ConfigError
from gateway.node.data_directory.backup import MANIFEST, backup, whole
from gateway.node.data_directory.plan_source import PlanSource, stopped
from gateway.node.data_directory.restore import restore
from gateway.runtime.copying import FileCopies
from tests.gateway.node.data_directory.test_backup import Life, run
from tests.gateway.node.running import headgate

OUTSIDE = [
    "../planted", "log/../../planted", "log/../../../planted", "..", ".", "", "log/..", "log/.", "log//planted",
    "/planted", "//planted", "./planted", "log/", "pla\0nted",
]  # fmt: skip
DATA = b"planted"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup, which tests copy before they change it."""
    folder = tmp_path_factory.mktemp("made")
    run(Life(folder / "data").go_on(), folder / "backups")
    return whole(folder / "backups")[0]


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    """A copy of the backup, two folders below `tmp_path`, which has a file that no backup has."""
    target = tmp_path / "in" / "copy"
    for path in sorted(made.rglob("*")):
        if path.is_file():
            there = target / path.relative_to(made)
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_bytes(path.read_bytes())
    (tmp_path / "in" / "planted").write_bytes(DATA)
    (tmp_path / "planted").write_bytes(DATA)
    return target


def with_entry(copy: Path, name: object, size: int = len(DATA)) -> None:
    """Add a file to the manifest of a backup."""
    path = copy / MANIFEST
    manifest = json.loads(path.read_bytes())
    manifest["files"][name] = [size, 0]
    path.write_text(json.dumps(manifest))


def refused(copy: Path, tmp_path: Path) -> str:
    """Why the backup is not restored; nothing was written."""
    data = tmp_path / "below" / "data"
    with pytest.raises(ConfigError) as caught:
        restore(copy, data, False, lambda line: None, FileCopies())
    assert not (tmp_path / "below").exists()
    return str(caught.value)


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_manifest_with_a_name_outside_the_backup_is_refused_by_name(copy: Path, tmp_path: Path, name: str) -> None:
    with_entry(copy, name)
    assert f"{copy / MANIFEST} has the name {name!r}" in refused(copy, tmp_path)


def test_an_absolute_name_is_refused_though_its_file_is_there(copy: Path, tmp_path: Path) -> None:
    name = str(tmp_path / "planted")
    with_entry(copy, name)
    assert repr(name) in refused(copy, tmp_path)


def test_the_command_says_so_and_ends_with_2(copy: Path, tmp_path: Path) -> None:
    with_entry(copy, "../planted")
    done = headgate("restore", str(copy), "--data", str(tmp_path / "below" / "data"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "'../planted'" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "below").exists()


def test_symbolic_links_in_a_backup_are_refused_by_name(copy: Path, tmp_path: Path) -> None:
    """A link to a file, to nothing, and a folder that is one: what it leads to is no part of the backup."""
    path = min((copy / "log").iterdir())
    kept = path.rename(tmp_path / "elsewhere")
    for goal in (kept, tmp_path / "nothing"):
        path.symlink_to(goal)
        assert f"{path} is a symbolic link" in refused(copy, tmp_path)
        path.unlink()
    kept.rename(path)
    folder = (copy / "log").rename(tmp_path / "log")
    (copy / "log").symlink_to(folder)
    assert f"{copy / 'log'} is a symbolic link" in refused(copy, tmp_path)


def test_a_backup_is_found_through_a_symbolic_link(copy: Path, tmp_path: Path) -> None:
    """Whoever restores chooses the folder, and may choose a link to it."""
    (tmp_path / "newest").symlink_to(copy)
    assert restore(tmp_path / "newest", tmp_path / "data", False, lambda line: None, FileCopies()) == 0
    assert {each.name for each in copy.iterdir()} - {MANIFEST} <= set(os.listdir(tmp_path / "data"))


@pytest.mark.parametrize("files", [[], "log", {"log/x": 7}, {"log/x": [7]}, {"log/x": ["7", 0]}, {"log/x": [7, 0, 0]}])
def test_a_manifest_of_another_form_is_no_backup(copy: Path, tmp_path: Path, files: object) -> None:
    path = copy / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "files": files}))
    assert "is no backup" in refused(copy, tmp_path)


@pytest.mark.parametrize("text", ["[]", '"backup"', "7", "null"])
def test_a_manifest_that_is_no_object_is_no_backup(copy: Path, tmp_path: Path, text: str) -> None:
    (copy / MANIFEST).write_text(text)
    assert "is no backup" in refused(copy, tmp_path)


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_backup_of_a_node_that_names_a_file_elsewhere_is_refused_by_name(tmp_path: Path, name: str) -> None:
    """The names come from whoever answers at the address of the admin port."""
    data = Life(tmp_path / "in" / "data").go_on(10)
    (tmp_path / "in" / "planted").write_bytes(DATA)
    target = tmp_path / "below" / "backups"

    @contextmanager
    def source() -> Iterator[PlanSource]:
        with stopped(str(data)) as found:
            yield found._replace(plan=found.plan._replace(files=[*found.plan.files, (name, len(DATA))]))

    with pytest.raises(ConfigError) as caught:
        backup(target, source(), 1, False, lambda line: None, FileCopies())
    assert repr(name) in str(caught.value)
    assert os.listdir(target) == ["lock"]
    assert os.listdir(tmp_path / "below") == ["backups"]
