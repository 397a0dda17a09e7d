"""`headgate backup` and `headgate restore` on real directories: whole, incremental, interrupted anywhere, refused."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from domain.errors import ConfigError
from gateway.connection.intake import PumpIntake
from gateway.node.data_directory import offline
from gateway.node.data_directory.backup import MANIFEST, backup, read_facts, whole
from gateway.node.data_directory.plan_source import running, stopped
from gateway.node.data_directory.restore import restore
from gateway.observe.health import Health
from gateway.observe.metrics import Snapshot
from gateway.runtime.admin.server import AdminServer
from gateway.runtime.admin.view import AdminView, Controls
from gateway.runtime.copying import FileCopies
from gateway.runtime.disk import DataDirectory
from protocols.hosts import Hosts
from store.log import promise
from store.settings import StoreSettings
from tests.gateway.node.running import headgate
from tests.gateway.runtime.admin.test_application import Users
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.platter import Content
from tests.store.driver import Driver

CONFIG = StoreSettings(
    segment_bytes=8_192, index_segment_bytes=4_096, tail_rows_max=8, checkpoint_bytes=4_000, cache_bytes=0, fresh_incarnation=77
)


class Killed(BaseException):
    """The backup dies: no operation has an effect from now on."""


class Failing(FileCopies):
    """Operations of which the one at `number` fails with `error`, which `after` says whether the later ones do too."""

    def __init__(self, number: int = -1, error: BaseException | None = None, after: bool = False) -> None:
        super().__init__()
        self.done = 0
        self._number = number
        self._error = error
        self._after = after

    def _step(self, half: Callable[[], object] = bool) -> None:
        """Count an operation; where it fails, `half` is what it has done before."""
        self.done += 1
        if self._error is not None and (self.done == self._number or (self._after and self.done > self._number)):
            half()
            raise self._error

    def make_folder(self, path: Path) -> None:
        self._step()
        super().make_folder(path)

    def copy(self, source: Path, target: Path, size: int, copied: Callable[[int], None]) -> None:
        self._step(lambda: target.write_bytes(source.read_bytes()[: size // 2]))
        super().copy(source, target, size, copied)

    def link(self, source: Path, target: Path) -> None:
        """A link that fails is replaced by a copy, which fails too."""
        self._step()
        super().link(source, target)

    def write(self, path: Path, data: bytes) -> None:
        self._step(lambda: path.write_bytes(data[: len(data) // 2]))
        super().write(path, data)

    def sync_folders(self, path: Path) -> None:
        self._step()
        super().sync_folders(path)

    def rename(self, old: Path, new: Path) -> None:
        self._step()
        super().rename(old, new)

    def remove_tree(self, path: Path) -> None:
        def half() -> None:
            for each in [found for found in sorted(path.rglob("*")) if found.is_file()][:1]:
                each.unlink()

        self._step(half)
        super().remove_tree(path)


class Life:
    """A store that is stopped, copied to a real folder, and goes on from there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bodies: list[bytes] = []
        self._driver = Driver(CONFIG)
        self._driver.topic("t")

    def go_on(self, count: int = 60) -> Path:
        """Store messages, stop, and write the files that have changed to the folder."""
        driver = self._driver
        for number in range(len(self.bodies), len(self.bodies) + count):
            body = b"message %04d %s" % (number, b"x" * 100)
            driver.send("t", body, properties=b"KEYS\x01key-%d\x02" % number)
            self.bodies.append(body)
        ended: list[bool] = []
        driver.store.drain(lambda: ended.append(True))
        driver.clock.run_until(lambda: bool(ended))
        driver.store.close()
        for path in [each for each in self.folder.rglob("*") if each.is_file()]:
            if str(path.relative_to(self.folder)) not in driver.disk.files:
                path.unlink()
        for name, content in driver.disk.files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_bytes() != bytes(content.data):
                path.write_bytes(bytes(content.data))
        self._driver = driver.killed()
        return self.folder


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return Life(tmp_path / "data")


def run(data: Path, target: Path, files: FileCopies | None = None, keep: int = 1) -> list[str]:
    said: list[str] = []
    assert backup(target, stopped(str(data)), keep, False, said.append, files or FileCopies()) == 0
    return said


def given_back(source: Path, data: Path) -> Driver:
    """The store on a restored directory."""
    assert restore(source, data, False, lambda line: None, FileCopies()) == 0
    clock = VirtualClock(1_800_000_000_000)
    disk = MemoryDisk(clock)
    for path in [each for each in data.rglob("*") if each.is_file()]:
        disk.files[str(path.relative_to(data))] = Content(path.read_bytes())
    driver = Driver(CONFIG, disk, clock)
    driver.clock.run_for(50)
    return driver


def test_a_backup_is_a_clean_data_directory_and_a_restore_another_log(life: Life, tmp_path: Path) -> None:
    data, target = life.go_on(), tmp_path / "backups"
    (data / "tls").mkdir()
    (data / "tls" / "key.pem").write_bytes(b"secret")
    (data / "tls" / "key.pem").chmod(0o600)
    done = headgate("backup", str(target), "--data", str(data))
    assert done.returncode == 0, done.stderr
    (made,) = whole(target)
    assert done.stdout.startswith(f"backup    {made}\n")
    checked = headgate("check", str(made))
    assert (checked.returncode, checked.stdout) == (0, f"{made}: nothing is damaged\n")
    shown = json.loads(headgate("restore", str(target), "--data", str(tmp_path / "new"), "--json").stdout)
    assert (shown["data"], shown["first"]) == (str(tmp_path / "new"), 0)
    assert shown["records"] >= 60
    assert (tmp_path / "new" / "tls" / "key.pem").stat().st_mode & 0o777 == 0o600
    assert headgate("check", str(tmp_path / "new")).returncode == 0
    marks = [offline.opened(str(folder), promise.newest)[1] for folder in (data, made, tmp_path / "new")]
    assert marks[0] == marks[1]
    assert marks[2] is not None
    assert marks[2] == marks[0]._replace(incarnation=shown["incarnation"])
    assert shown["incarnation"] not in (77, 0)
    restored = given_back(made, tmp_path / "other")
    assert restored.bodies("t") == life.bodies
    restored.send("t", b"goes on")
    assert restored.killed().bodies("t") == [*life.bodies, b"goes on"]


def test_a_second_backup_copies_what_is_new_and_replaces_the_first(life: Life, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    run(life.go_on(120), target)
    first = read_facts(whole(target)[0])
    assert first is not None
    inodes = {(each.name, each.stat().st_ino) for each in (whole(target)[0] / "log").iterdir()}
    said = run(life.go_on(20), target)
    (made,) = whole(target)
    assert made.name.startswith("000002-")
    same = inodes & {(each.name, each.stat().st_ino) for each in (made / "log").iterdir()}
    assert len(same) >= len(inodes) - 1 > 2, "all but the last file of the log are those of the first backup"
    copied = int(said[-1].split(" files, ")[1].split(" bytes")[0].replace(",", ""))
    second = read_facts(made)
    assert second is not None
    assert copied < second.size / 2
    assert sorted(os.listdir(target)) == [made.name, "lock"]
    assert given_back(target, tmp_path / "new").bodies("t") == life.bodies


def test_older_backups_are_kept_when_wanted(life: Life, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    counts = []
    for _ in range(4):
        run(life.go_on(20), target, keep=2)
        counts.append(len(life.bodies))
    assert [path.name[:6] for path in whole(target)] == ["000003", "000004"]
    assert len(given_back(whole(target)[0], tmp_path / "older").bodies("t")) == counts[-2]
    assert len(given_back(target, tmp_path / "newer").bodies("t")) == counts[-1]


@pytest.mark.parametrize(
    ("error", "after"), [(Killed(), True), (OSError(errno.ENOSPC, "No space left on device"), False)], ids=["kill", "full"]
)
def test_an_interruption_at_any_step_leaves_a_usable_backup(
    life: Life, tmp_path: Path, error: BaseException, after: bool
) -> None:
    target = tmp_path / "backups"
    run(life.go_on(80), target)
    old = list(life.bodies)
    life.go_on(40)
    counting = Failing()
    subprocess.run(["cp", "-a", str(target), str(tmp_path / "kept")], check=True)
    run(life.folder, target, counting)
    assert counting.done > 15
    seen = set()
    for number in range(1, counting.done + 1):
        subprocess.run(["rm", "-rf", str(target)], check=True)
        subprocess.run(["cp", "-a", str(tmp_path / "kept"), str(target)], check=True)
        try:
            run(life.folder, target, Failing(number, error, after))
        except (Killed, OSError):
            pass
        else:
            assert not after, "it was not killed"
        data = tmp_path / f"new-{number}"
        found = given_back(target, data).bodies("t")
        assert found in (old, life.bodies)
        seen.add(len(found))
        said = run(life.folder, target)
        (made,) = whole(target)
        assert sorted(os.listdir(target)) == [made.name, "lock"], said
        subprocess.run(["rm", "-rf", str(data)], check=True)
    assert len(seen) == 2, "the name comes in one step"


def test_damage_is_not_backed_up_and_the_old_backup_stays(life: Life, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    run(life.go_on(), target)
    old = list(life.bodies)
    path = min((life.go_on() / "log").iterdir())
    data = bytearray(path.read_bytes())
    data[5_000] ^= 1
    path.write_bytes(bytes(data))
    done = headgate("backup", str(target), "--data", str(life.folder))
    assert done.returncode == 2
    assert f"log/{path.name} is damaged" in done.stderr
    assert "headgate check" in done.stderr
    assert given_back(target, tmp_path / "new").bodies("t") == old


def test_a_damaged_index_costs_the_copy_its_index(life: Life, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    path = max((life.go_on() / "checkpoint").iterdir())
    path.write_bytes(bytes(len(path.read_bytes())))
    said = run(life.folder, target)
    assert said[-1].startswith("warning")
    (made,) = whole(target)
    assert not (made / "checkpoint").exists()
    assert headgate("check", str(made)).returncode == 0
    assert given_back(target, tmp_path / "new").bodies("t") == life.bodies


def test_a_damaged_backup_is_not_restored(life: Life, tmp_path: Path) -> None:
    target, new = tmp_path / "backups", tmp_path / "new"
    run(life.go_on(), target)
    (made,) = whole(target)
    path = min((made / "log").iterdir())
    before = path.read_bytes()
    path.write_bytes(before[:5_000] + bytes([before[5_000] ^ 1]) + before[5_001:])
    done = headgate("restore", str(target), "--data", str(new))
    assert done.returncode == 2
    assert f"{made}/log/{path.name} is damaged" in done.stderr
    assert os.listdir(new) == []
    path.write_bytes(before[:-1])
    done = headgate("restore", str(target), "--data", str(new))
    assert done.returncode == 2
    assert "bytes instead of" in done.stderr
    path.unlink()
    assert "is missing" in headgate("restore", str(target), "--data", str(new)).stderr


def test_a_restore_that_was_interrupted_is_never_taken_for_a_whole_one(life: Life, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    run(life.go_on(), target)
    counting = Failing()
    restore(target, tmp_path / "new", False, lambda line: None, counting)
    for number in range(1, counting.done):
        data = tmp_path / f"new-{number}"
        with pytest.raises(Killed):
            restore(target, data, False, lambda line: None, Failing(number, Killed(), True))
        if (data / "log").is_dir() and len(os.listdir(data / "log")) < len(os.listdir(tmp_path / "new" / "log")):
            assert headgate("check", str(data)).returncode == 1, "a node refuses to start"
        if data.is_dir() and os.listdir(data):
            with pytest.raises(ConfigError, match="is not empty"):
                restore(target, data, False, lambda line: None, FileCopies())
    for number in range(1, counting.done):
        data = tmp_path / f"full-{number}"
        with pytest.raises(OSError, match="No space"):
            restore(target, data, False, lambda line: None, Failing(number, OSError(errno.ENOSPC, "No space left on device")))
        assert os.listdir(data) == [], "what was copied is deleted"


def test_what_does_not_fit_is_refused(life: Life, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    data = life.go_on()
    run(data, target)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thing").write_bytes(b"")
    loop = asyncio.new_event_loop()
    for arguments, text in [
        (("backup", str(target), "--data", str(tmp_path / "nowhere")), "is no data directory"),
        (("backup", str(tmp_path / "full"), "--data", str(data)), "holds other files (thing)"),
        (("backup", str(data / "inside"), "--data", str(data)), "is in the data directory"),
        (("backup", str(target), "--admin", "127.0.0.1:1"), "no node answers on the admin port 127.0.0.1:1"),
        (("restore", str(tmp_path / "full"), "--data", str(tmp_path / "new")), "is no backup"),
        (("restore", str(target), "--data", str(tmp_path / "full")), "is not empty (thing)"),
        (("restore", str(target), "--data", str(data)), "is not empty"),
    ]:
        done = headgate(*arguments)
        assert (done.returncode, text in done.stderr) == (2, True), done.stderr
    disk = DataDirectory(data, loop)
    try:
        done = headgate("backup", str(target), "--data", str(data))
        assert (done.returncode, "give --admin HOST:PORT" in done.stderr) == (2, True), done.stderr
        done = headgate("restore", str(target), "--data", str(data))
        assert (done.returncode, "is in use" in done.stderr) == (2, True), done.stderr
    finally:
        disk.close()
        loop.close()
    other = Life(tmp_path / "other")
    other._driver = Driver(StoreSettings(fresh_incarnation=78))
    other._driver.topic("t")
    with pytest.raises(ConfigError, match="is of another log"):
        run(other.go_on(), target)
    assert len(whole(target)) == 1


def test_two_backups_into_one_folder_exclude_each_other(life: Life, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    data = life.go_on()

    class Second(FileCopies):
        """Begins another backup in the middle."""

        def sync_folders(self, path: Path) -> None:
            """Be overtaken."""
            with pytest.raises(ConfigError, match="is under way"):
                run(data, target)
            super().sync_folders(path)

    run(data, target, Second())
    assert len(whole(target)) == 1


def test_half_a_manifest_is_no_backup(life: Life, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    run(life.go_on(), target)
    (made,) = whole(target)
    text = (made / MANIFEST).read_bytes()
    (made / MANIFEST).write_bytes(text[: len(text) // 2])
    assert whole(target) == []
    with pytest.raises(ConfigError, match="is no backup"):
        restore(target, tmp_path / "new", False, lambda line: None, FileCopies())


class LiveNode:
    """A store on a real folder with its admin port, in a thread of its own."""

    def __init__(self, folder: Path, authority: Users | None) -> None:
        self.folder = folder
        self.port = 0
        self.ends: list[bool] = []
        self.lease_ms: int | None = None
        self._authority = authority
        self._ready, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._ready.wait(30)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        import socket

        from domain.store.store_event import unheard
        from gateway.runtime.clock import LoopClock
        from store.engine import open_store

        loop = asyncio.get_running_loop()
        disk = DataDirectory(self.folder, loop)
        clock = LoopClock(loop)
        store = open_store(disk, clock, CONFIG, unheard)
        bound = socket.create_server(("127.0.0.1", 0))
        self.port = bound.getsockname()[1]
        health = Health(time.monotonic_ns)
        users = self._authority
        view = AdminView(
            health, Hosts((), ""), lambda: () if users is None else (users,), Snapshot,
            Controls(list, lambda: None, store.backups, str(self.folder)),
        )  # fmt: skip
        admin = AdminServer(bound)
        await admin.serve(view, clock, PumpIntake(clock, lambda: 0))
        self._ready.set()
        while not self._over.is_set():
            await asyncio.sleep(0.01)
        self.ends.append(store.parts.commit.faults.broken is None)
        await admin.close()
        store.close()
        disk.close()

    def close(self) -> None:
        """Stop."""
        self._over.set()
        self._thread.join()


@pytest.fixture
def live(life: Life) -> Iterator[Callable[[Users | None], LiveNode]]:
    nodes: list[LiveNode] = []

    def start(authority: Users | None) -> LiveNode:
        nodes.append(LiveNode(life.go_on(), authority))
        return nodes[-1]

    yield start
    for node in nodes:
        node.close()


def test_the_admin_port_asks_who_wants_a_backup(live: Callable[[Users | None], LiveNode], life: Life, tmp_path: Path) -> None:
    node = live(Users())
    target, address = tmp_path / "backups", f"127.0.0.1:{node.port}"
    for credentials, text in [("", "who are you"), ("guest:p", "Super users")]:
        with pytest.raises(ConfigError, match=text):
            backup(target, running(address, credentials, None), 1, False, lambda line: None, FileCopies())
        assert whole(target) == []
        assert os.listdir(target) == ["lock"]
    (tmp_path / "user").write_text("root:p\n")
    done = headgate("backup", str(target), "--admin", address, "--user-file", str(tmp_path / "user"), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["data"] == str(life.folder)
    assert given_back(target, tmp_path / "new").bodies("t") == life.bodies


def test_a_hold_that_has_ended_before_the_copy_was_whole_fails_the_backup(
    live: Callable[[Users | None], LiveNode], tmp_path: Path
) -> None:
    import urllib.request

    node = live(None)
    target, address = tmp_path / "backups", f"127.0.0.1:{node.port}"

    class Late(FileCopies):
        """The hold ends during the first copy."""

        def copy(self, source: Path, target: Path, size: int, copied: Callable[[int], None]) -> None:
            """End the hold, as its lease would, and copy."""
            request = urllib.request.Request(f"http://{address}/v1/admin/backups/1", method="DELETE")
            with suppress(urllib.error.HTTPError):
                urllib.request.urlopen(request, timeout=10).close()
            super().copy(source, target, size, copied)

    with pytest.raises(ConfigError, match="the hold has ended"):
        backup(target, running(address, "", None), 1, False, lambda line: None, Late())
    assert whole(target) == []
    with pytest.raises(ConfigError, match="is not found here"):
        backup(target, running(address, "", str(tmp_path / "nowhere")), 1, False, lambda line: None, FileCopies())
    assert backup(target, running(address, "", None), 1, False, lambda line: None, FileCopies(gentle=True)) == 0
