"""A name server and two brokers of Apache RocketMQ, each a process of its own, with their data in a temporary folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from examples.ports import free_port

READY_S: Final = 120.0
PACKAGES: Final = Path(__file__).resolve().parents[2] / "benchmarks" / "apache" / "pom.xml"
JVM: Final = ("java", "-Xms96m", "-Xmx384m", "-XX:+UseSerialGC", "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED")


class NoApacheError(Exception):
    """There is nothing to start; the text says what is missing."""


def classpath(home: str, folder: Path) -> str:
    """The class path of the servers: of the distribution in `home`, else of the packages that Maven brings."""
    if home:
        if not (Path(home) / "lib").is_dir():
            raise NoApacheError(f"{home} has no folder lib: it is no distribution of Apache RocketMQ")
        return f"{home}/lib/*"
    if shutil.which("java") is None or shutil.which("mvn") is None:
        raise NoApacheError("a JDK is needed, and either --home DIR with a distribution of Apache RocketMQ or Maven")
    file = folder / "classpath"
    command = ["mvn", "-q", "-f", str(PACKAGES), "dependency:build-classpath", f"-Dmdep.outputFile={file}"]
    subprocess.run(command, check=True)
    return file.read_text().strip()


class ApacheServer:
    """One process. A broker also takes the port below its own by two, and the next one."""

    def __init__(self, folder: Path, packages: str, main: str, port: int, **settings: object) -> None:
        folder.mkdir(parents=True)
        self.address = f"127.0.0.1:{port}"
        self._port = port
        self._log = folder / "output.txt"
        conf = folder / "server.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in {"listenPort": port, **settings}.items()))
        home = (f"-Drocketmq.home.dir={folder}", f"-Duser.home={folder}")
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [*JVM, *home, "-cp", packages, f"org.apache.rocketmq.{main}", "-c", str(conf)],
                stdout=output, stderr=output, stdin=subprocess.DEVNULL, env={**os.environ, "NAMESRV_ADDR": ""},
            )  # fmt: skip

    def wait(self) -> None:
        """Wait until it listens. Raises NoApacheError with what it has printed when it does not."""
        end = time.monotonic() + READY_S
        while self._process.poll() is None and time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise NoApacheError(f"{self.address} does not listen:\n{self._log.read_text(errors='replace')[-2000:]}")

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(60)


@contextmanager
def apache(folder: Path, home: str) -> Iterator[tuple[str, list[ApacheServer]]]:
    """(address of the name server, the brokers)."""
    folder.mkdir(parents=True, exist_ok=True)
    packages = classpath(home, folder)
    with ExitStack() as running:
        nameserver = ApacheServer(folder / "nameserver", packages, "namesrv.NamesrvStartup", free_port())
        running.callback(nameserver.stop)
        nameserver.wait()
        brokers = []
        for name in ("broker-a", "broker-b"):
            store = folder / name / "store"
            brokers.append(
                ApacheServer(
                    folder / name, packages, "broker.BrokerStartup", free_port(), brokerName=name, brokerId=0,
                    brokerClusterName="DefaultCluster", brokerIP1="127.0.0.1", namesrvAddr=nameserver.address,
                    storePathRootDir=store, storePathCommitLog=store / "commitlog", mappedFileSizeCommitLog=64 << 20,
                    enablePropertyFilter="true", recallMessageEnable="true", diskMaxUsedSpaceRatio=99,
                )
            )  # fmt: skip
            running.callback(brokers[-1].stop)
        for broker in brokers:
            broker.wait()
        yield nameserver.address, brokers
