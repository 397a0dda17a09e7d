"""Three brokers for Apache's tests: nodes, or Apache's own; and the Java process that runs the tests, one at a time."""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from tests.interop.node import Node
from tests.interop.remoting.java import JavaClient, build
from tests.interop.rocketmq.places import NODE, Place, place

PROJECT: Final = Path(__file__).parent
BROKERS: Final = ("broker-a", "broker-b", "broker-c")
"""Clients use the name server of the first node; the suite registers each broker at the name servers of the others."""
SETTINGS: Final[dict[str, object]] = {
    "enableCalcFilterBitMap": "true", "enableConsumeQueueExt": "true", "appendAckAsync": "true", "appendCkAsync": "true",
    "popConsumerKVServiceInit": "true", "loadBalancePollNameServerInterval": 500, "transactionCheckInterval": 1_000,
    "maxTransferCountOnMessageInMemory": 1_024, "maxTransferCountOnMessageInDisk": 1_024,
}  # fmt: skip
"""Settings that the suite gives its brokers."""
LONG_S: Final = 900


def suite() -> Mapping[str, Any]:
    """suite.toml: `often` and `seldom`, group -> classes; `absent`, test -> reason; `differs`, at what -> test -> reason."""
    return tomllib.loads((PROJECT / "suite.toml").read_text())


class Cluster:
    """The brokers with their data in `folder`; a context manager. Building skips where Java or Maven is missing.

    at   one of PLACES: three nodes, or three brokers of Apache's with a gateway before them or without
    """

    def __init__(self, folder: Path, at: str = NODE) -> None:
        self._java: JavaClient = build(folder, PROJECT)
        self._folder = folder
        self._at = at
        self._stack = ExitStack()
        self._place = Place("", "", {})
        self._absent = [f"-{test}" for test in (*suite()["absent"], *suite()["differs"][NODE if at == NODE else "brokers"])]

    def __enter__(self) -> Cluster:
        if self._at == NODE:
            nodes = [
                self._stack.enter_context(Node(self._folder / name, "--durability=page", environment={"HEADGATE_BROKER": name}))
                for name in BROKERS
            ]
            brokers = {node.folder.name: f"127.0.0.1:{node.port('remoting')}" for node in nodes}
            self._place = Place(f"127.0.0.1:{nodes[0].port('nameserver')}", "", brokers)
        else:
            self._place = self._stack.enter_context(place(self._at, self._folder, None, BROKERS, **SETTINGS))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, classes: Sequence[str], seconds: int = LONG_S) -> str:
        """Run test classes one after the other, without `absent` tests. Returns the output; its last line is `done`."""
        nameserver = self._place.nameserver
        places = ",".join(f"{name}@{address}" for name, address in self._place.brokers.items())
        options = (
            f"-Dsuite.nameserver={nameserver}", f"-Drocketmq.namesrv.addr={nameserver}", "-Dsuite.cluster=DefaultCluster",
            f"-Dsuite.brokers={places}", f"-Dsuite.register={str(self._at == NODE).lower()}",
        )  # fmt: skip
        command = [*self._java.command("Suite", *options), *classes, *self._absent]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired as error:
            said = error.stdout.decode(errors="replace") if isinstance(error.stdout, bytes) else error.stdout or ""
            return f"{said}\nnot done within {seconds} s\n"
        return done.stdout + ("" if done.stdout.endswith("done\n") else done.stderr[-4000:])


def outcomes(said: str) -> dict[str, str]:
    """`passed`, `failed` or `ignored` by test."""
    found: dict[str, str] = {}
    for line in said.splitlines():
        words = line.split()
        if len(words) == 3 and words[0] in ("passed", "failed", "ignored"):
            found[words[1]] = words[0]
    return found
