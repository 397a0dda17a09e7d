"""Apache RocketMQ 5.5.0 for one test session: a name server and two brokers, two masters, each in a small JVM of its own.

with ApacheCluster(folder) as cluster:
    cluster.nameserver, cluster.brokers["broker-a"].port
    cluster.make_topic("orders", "NORMAL")
    cluster.brokers["broker-b"].kill(); cluster.restart("broker-b")
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.process import bound, free_run
from gateway.client.link import Link
from protocols.remoting.wire.frame import Frame
from tests.interop.grpc.setup import UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, UPDATE_AND_CREATE_TOPIC
from tests.interop.workshop import ROOT, archive, java_classpath, jvm

START_S = 120.0
JVM = (
    "java", "-Xms96m", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=1g",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED", "-Dtls.server.mode=disabled",
)  # fmt: skip
"""Options of each JVM. Without TLS a server makes no certificate for itself: that takes one or two seconds."""
CLUSTER = "DefaultCluster"
TWO = ("broker-a", "broker-b")
_GET_RUNTIME_INFO = 28
_GET_MAX_OFFSET = 30
_GET_ROUTE = 105


def classpath() -> str:
    """The class path of Apache's servers and tools; packages come from Maven. Skips the test without a JDK or Maven."""
    return java_classpath(ROOT / "benchmarks" / "apache", "Apache RocketMQ")


class JavaServer:
    """One of Apache's servers, in a process of its own."""

    def __init__(
        self,
        name: str,
        folder: Path,
        port: int,
        main: str,
        settings: dict[str, object],
        options: Sequence[str] = (),
        libraries: Callable[[], str] = classpath,
    ) -> None:
        """`options`: of its JVM; `libraries`: its class path."""
        self.name = name
        self.port = port
        self.folder = folder
        self._main = main
        self._settings = {"listenPort": port, **settings}
        self._options = options
        self._libraries = libraries
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self.port}"

    def spawn(self) -> None:
        """Start it; `ready` waits."""
        self.folder.mkdir(parents=True, exist_ok=True)
        conf = self.folder / "server.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))
        home = (f"-Drocketmq.home.dir={self.folder}", f"-Duser.home={self.folder}")
        java = jvm(self._libraries(), *home, *self._options, always=JVM, server=self._main)
        with (self.folder / "output.txt").open("ab") as output:
            self._process = subprocess.Popen(
                bound([*java, f"org.apache.rocketmq.{self._main}", "-c", str(conf)]),
                stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd=self.folder,
            )  # fmt: skip

    def ready(self) -> None:
        """Wait until it listens."""
        limit = time.monotonic() + START_S
        while time.monotonic() < limit:
            assert self._process is not None
            assert self._process.poll() is None, f"{self.name} has ended:\n{self.text()}"
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.1)
        raise AssertionError(f"{self.name} does not listen:\n{self.text()}")

    def text(self) -> str:
        """What it has printed."""
        return (self.folder / "output.txt").read_text(errors="replace")[-4000:]

    def kill(self) -> None:
        """SIGKILL. Does nothing when it is not running."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it for good: with SIGTERM when an archive of its classes is still to be written."""
        self._end(signal.SIGKILL if archive(self._libraries(), self._main).exists() else signal.SIGTERM)

    def pause(self) -> None:
        """SIGSTOP: its connections stay, and nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Go on after `pause`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait(START_S)


class ApacheCluster:
    """A name server and masters, two unless others are named.

    tool_options   of the JVM of mqadmin
    """

    tool_options: Sequence[str] = ()

    def __init__(self, folder: Path, names: Sequence[str] = TWO, **settings: object) -> None:
        """`names`: of the brokers; `settings` are added to those of the brokers."""
        self.nameserver = JavaServer("nameserver", folder / "ns", free_run(), "namesrv.NamesrvStartup", {})
        self.brokers = {
            name: JavaServer(name, folder / name, free_run(), "broker.BrokerStartup", self._broker(name, folder, settings))
            for name in names
        }

    def _broker(self, name: str, folder: Path, settings: dict[str, object]) -> dict[str, object]:
        own = self.broker_settings(name, folder / name)
        return {**own, "brokerId": 0, "namesrvAddr": self.nameserver.address, **settings}

    @staticmethod
    def broker_settings(name: str, folder: Path) -> dict[str, object]:
        """The settings that brokers of tests have in common. `folder`: of this broker alone."""
        return {
            "brokerClusterName": CLUSTER, "brokerName": name, "brokerIP1": "127.0.0.1", "storePathRootDir": folder / "store",
            "storePathCommitLog": folder / "store" / "commitlog", "flushDiskType": "ASYNC_FLUSH",
            "autoCreateTopicEnable": "true", "enablePropertyFilter": "true", "recallMessageEnable": "true",
            "mappedFileSizeCommitLog": 64 << 20, "mappedFileSizeConsumeQueue": 300_000, "maxIndexNum": 100_000,
            "maxHashSlotNum": 50_000, "timerWheelEnable": "true", "mappedFileSizeTimerLog": 1 << 20,
            "transactionCheckInterval": 3_000, "diskMaxUsedSpaceRatio": 99, "brokerFastFailureEnable": "false",
            # The whole timer wheel, 38 MB, is copied at each, for almost a second of processor time.
            "timerFlushIntervalMs": 60_000,
            # A thread looks at the clock without a pause until the first interval has passed.
            "transactionMetricFlushInterval": 1_000,
            # An end of a transaction is written at once. For a batch of them a thread would look without a pause, with a
            # processor of its own, from one interval after the first of them on.
            "transactionOpMsgMaxSize": 1, "transactionOpBatchInterval": 3_600_000,
        }  # fmt: skip

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Start all of it, and wait until the name server knows both brokers."""
        self.nameserver.spawn()
        self.nameserver.ready()
        for each in self.brokers.values():
            each.spawn()
        for each in self.brokers.values():
            each.ready()
        self.until_route(CLUSTER, len(self.brokers))

    def restart(self, name: str) -> None:
        """Start a broker again, with the same data, and wait until it serves."""
        broker = self.brokers[name]
        broker.spawn()
        broker.ready()
        self.until_route(CLUSTER, len(self.brokers))
        # It listens some time before it answers.
        eventually(lambda: self._answers(broker.address), f"{name} answers nothing")

    def stop(self) -> None:
        """Stop all of it; what is stored is not needed any more."""
        for each in (*self.brokers.values(), self.nameserver):
            each.stop()

    def until_route(self, topic: str, brokers: int) -> None:
        """Wait until the name server's route of a topic has so many brokers."""

        def known() -> bool:
            reply = self.route(self.nameserver, topic)
            return reply.code == 0 and len(json.loads(reply.body)["brokerDatas"]) == brokers

        eventually(known, f"the route of {topic} has no {brokers} brokers")

    def until_readable(self, broker: str, topic: str, count: int) -> None:
        """Wait until queue 0 of a topic has so many messages that can be read."""

        def readable() -> bool:
            fields = {"topic": topic, "queueId": "0", "committed": "false"}
            return int(self.ask(self.brokers[broker].address, _GET_MAX_OFFSET, fields)["offset"]) >= count

        eventually(readable, f"{topic} has not {count} messages")

    def make_topic(self, topic: str, kind: str = "NORMAL", queues: int = 2) -> None:
        """`mqadmin updateTopic -c DefaultCluster -a +message.type=KIND`."""
        fields = {
            "topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": "6",
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "attributes": f"+message.type={kind}",
            "force": "false",
        }  # fmt: skip
        for broker in self.brokers.values():
            self.ask(broker.address, UPDATE_AND_CREATE_TOPIC, fields)
        self.until_route(topic, len(self.brokers))

    def make_group(self, group: str, orderly: bool = False, **more: object) -> None:
        """`mqadmin updateSubGroup -c DefaultCluster`."""
        body = {
            "groupName": group, "consumeEnable": True, "consumeMessageOrderly": orderly, "retryMaxTimes": 16,
            "retryQueueNums": 1, **more,
        }  # fmt: skip
        for broker in self.brokers.values():
            self.ask(broker.address, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {"bname": broker.name}, json.dumps(body).encode())

    def link(self, address: str) -> Link:
        """A connection to one of the servers."""
        return Link(address, 10)

    def ask(self, address: str, code: int, fields: dict[str, str], body: bytes = b"") -> dict[str, str]:
        """Send one request, which must succeed. Returns the ext fields of the answer."""
        reply = self.reply(address, code, fields, body)
        assert reply.code == 0, reply.remark
        return dict(reply.fields() or {})

    def reply(self, address: str, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"") -> Frame:
        """Send one request. Returns the answer, a refusal too."""
        link = self.link(address)
        try:
            (reply,) = link.ask([(code, fields or {}, body)])
        finally:
            link.close()
        return reply

    def route(self, nameserver: JavaServer, topic: str) -> Frame:
        """A name server's answer to the question for the route of a topic."""
        return self.reply(nameserver.address, _GET_ROUTE, {"topic": topic, "acceptStandardJsonOnly": "true"})

    def _answers(self, address: str) -> bool:
        # A broker that has just started fails to tell its figures: it has none yet.
        with suppress(OSError, AssertionError):
            self.ask(address, _GET_RUNTIME_INFO, {"bname": ""})
            return True
        return False

    def mqadmin(self, *arguments: str) -> str:
        """What a command of mqadmin prints."""
        tool = "org.apache.rocketmq.tools.command.MQAdminStartup"
        command = [*jvm(classpath(), *self.tool_options, always=JVM), tool]
        done = subprocess.run(
            [*command, *arguments, "-n", self.nameserver.address], capture_output=True, text=True, timeout=START_S, check=False,
            env={**os.environ, "ROCKETMQ_HOME": str(self.nameserver.folder)},
        )  # fmt: skip
        return done.stdout + done.stderr


def eventually(true: Callable[[], bool], text: str | Callable[[], str], seconds: float = START_S) -> None:
    """Wait until `true` returns True. Fails after `seconds` with `text`, or with what it returns then."""
    limit = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < limit, text if isinstance(text, str) else text()
        time.sleep(0.2)
