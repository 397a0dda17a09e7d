"""One broker of Apache RocketMQ and its name server, whose promises a test can break: settings change while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.process import free_run
from protocols.remoting.codes import UPDATE_BROKER_CONFIG
from tests.interop.rocketmq.apache import ApacheCluster, JavaServer, classpath

_LONG_MS = 1_000_000_000
KEPT: dict[str, object] = {
    "brokerRole": "ASYNC_MASTER", "inSyncReplicas": 1, "enableSlaveActingMaster": "false", "slaveTimeout": 3_000,
    "syncFlushTimeout": 5_000, "commitCommitLogLeastPages": 0, "commitCommitLogThoroughInterval": 10,
}  # fmt: skip
"""The settings that `broken` changes, as they are otherwise."""
BROKEN: dict[str, dict[str, object]] = {
    "flush disk timeout": {
        "syncFlushTimeout": 100, "commitCommitLogLeastPages": _LONG_MS, "commitCommitLogThoroughInterval": _LONG_MS
    },
    "flush slave timeout": {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "slaveTimeout": 100},
    "too few replicas": {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "enableSlaveActingMaster": "true"},
    "busy": {"brokerRole": "SLAVE"},
    "slave not available": {"brokerRole": "SYNC_MASTER"},
}  # fmt: skip
"""What is wrong -> settings that bring it about, for every send and without a race.

flush disk timeout    messages stay in the write buffer (transientStorePoolEnable), which nothing brings to the file
flush slave timeout   two brokers have to have a message, and there is one
too few replicas      the same, and the broker looks before it stores
busy                  a broker that is a replica now refuses all sends with SYSTEM_BUSY, as one without write buffers does
slave not available   4.9: a replica has to have a message, and there is none
"""


WRITE_BUFFER: dict[str, object] = {
    "flushDiskType": "SYNC_FLUSH", "transientStorePoolEnable": "true", "transientStorePoolSize": 4,
    "mappedFileSizeCommitLog": 16 << 20, "commitIntervalCommitLog": 10, **KEPT,
}  # fmt: skip
"""Settings of a broker that flushes each message before it answers, out of a buffer in memory."""
JAVA_17 = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
)  # fmt: skip
"""What brokers of 4.9 need of a JVM of today."""


class LoneBroker(ApacheCluster):
    """broker-a."""

    def __init__(
        self, folder: Path, settings: Mapping[str, object] | None = None, libraries: Callable[[], str] = classpath
    ) -> None:
        """`settings` are added to the broker's; `libraries`: the class path of another version than 5.5.0."""
        for home, file in ((folder / "ns", "logback_namesrv"), (folder / "broker-a", "logback_broker")):
            (home / "conf").mkdir(parents=True)
            (home / "conf" / f"{file}.xml").write_text("<configuration/>")  # 4.9 does not start without
        self.nameserver = JavaServer(
            "nameserver", folder / "ns", free_run(), "namesrv.NamesrvStartup", {}, JAVA_17, libraries
        )  # fmt: skip
        told = {
            **self.broker_settings("broker-a", folder / "broker-a"), "brokerId": 0, "namesrvAddr": self.nameserver.address,
            **(settings or {}),
        }  # fmt: skip
        broker = JavaServer(
            "broker-a", folder / "broker-a", free_run(), "broker.BrokerStartup", told, JAVA_17, libraries
        )  # fmt: skip
        self.brokers = {"broker-a": broker}

    @contextmanager
    def broken(self, what: str) -> Iterator[None]:
        """The broker breaks a promise until the end of the block."""
        self._change(BROKEN[what])
        try:
            yield
        finally:
            self._change(KEPT)

    def _change(self, settings: dict[str, object]) -> None:
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        self.ask(self.brokers["broker-a"].address, UPDATE_BROKER_CONFIG, {"bname": "broker-a"}, text.encode())
