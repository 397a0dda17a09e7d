"""Source of a backup: a data directory that no node has open, or a running node, which keeps its files during the copy."""

from __future__ import annotations

import base64
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from domain.errors import ConfigError
from domain.store.backup import BackupPlan
from gateway.node.data_directory.offline import opened_directory
from store.offline import backup as content

RESOURCE: Final = "/v1/admin/backups"
_ANSWER_S: Final = 15.0


class PlanSource(NamedTuple):
    """The folder to copy from, and what of it."""

    folder: Path
    plan: BackupPlan


@contextmanager
def stopped(folder: str) -> Iterator[PlanSource]:
    """A data directory that no node has open, locked meanwhile. Raises ConfigError, OSError."""
    try:
        directory = opened_directory(folder)
        disk = directory.__enter__()
    except ConfigError as error:
        if "is in use" not in str(error):
            raise
        text = f"{str(error).partition(':')[0]}: give --admin HOST:PORT of that node, and it is copied while it runs"
        raise ConfigError(text) from error
    try:
        yield PlanSource(Path(folder), content.plan(disk))
    finally:
        directory.__exit__(None, None, None)


class NodeHold:
    """A hold of a running node, renewed by a thread until `end`."""

    def __init__(self, address: str, credentials: str) -> None:
        """`address` HOST:PORT of the admin port; `credentials` NAME:PASSWORD, "" for none. Raises ConfigError."""
        self._address = address
        self._credentials = credentials
        answer = self._ask("POST", RESOURCE)
        self._path = f"{RESOURCE}/{answer['hold']}"
        self.folder = str(answer["data"])
        self.plan = BackupPlan(
            [(str(name), int(size)) for name, size in answer["files"]], bytes.fromhex(answer["mark"]),
            int(answer["incarnation"]), int(answer["first"]), int(answer["position"]),
        )  # fmt: skip
        self._every_s = int(answer["lease_ms"]) / 3_000
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """End the hold. Raises ConfigError when it had ended before: files may be missing from the copy."""
        self._over.set()
        self._thread.join()
        self._ask("DELETE", self._path)

    def _renew(self) -> None:
        while not self._over.wait(self._every_s):
            try:
                self._ask("POST", self._path)
            except ConfigError:  # a late answer does no harm; a hold that has ended is noticed by `end`
                continue

    def _ask(self, method: str, path: str) -> Any:
        request = urllib.request.Request(f"http://{self._address}{path}", method=method)
        if self._credentials:
            request.add_header("Authorization", "Basic " + base64.b64encode(self._credentials.encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_S) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise ConfigError(self._refused(error)) from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise ConfigError(
                f"no node answers on the admin port {self._address} ({reason}): "
                "give --admin HOST:PORT of the node, or --data DIR when it is stopped"
            ) from error

    def _refused(self, error: urllib.error.HTTPError) -> str:
        said = error.read().decode(errors="replace").strip()
        who = f"the node at {self._address} refuses the backup: {said}"
        if error.code == 501:
            return f"the node at {self._address} still starts: run the backup when it is ready"
        if error.code in (401, 403):
            return f"{who}; give the credentials of a Super user with --user-file FILE (NAME:PASSWORD in its first line)"
        return f"{who}; run the backup again" if error.code == 404 and self._has_begun else who

    @property
    def _has_begun(self) -> bool:
        return hasattr(self, "_path")


@contextmanager
def running(address: str, credentials: str, folder: str | None) -> Iterator[PlanSource]:
    """A running node; `folder`: where its data directory is here, None for where the node says. Raises ConfigError."""
    hold = NodeHold(address, credentials)
    try:
        path = Path(folder or hold.folder)
        if not path.is_dir():
            raise ConfigError(
                f"the data directory {path} of the node at {address} is not found here: "
                "run the backup on the machine of the node, and give --data when the directory has another name here"
            )
        yield PlanSource(path, hold.plan)
    except BaseException:
        with suppress(ConfigError):  # the first error counts
            hold.end()
        raise
    hold.end()
