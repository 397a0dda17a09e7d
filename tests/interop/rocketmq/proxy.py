"""Apache's proxy 5.5.0 in CLUSTER mode, in a process of its own, before any name server and its brokers."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.process import bound, free_port
from tests.interop.rocketmq.apache import CLUSTER, classpath
from tests.interop.workshop import jvm

START_S = 120


class ApacheProxy:
    """One proxy, from `with` to the end of the block. Skips the test without a JDK or Maven.

    nameserver   host:port of the name server of its cluster
    settings     added to those of conf/rmq-proxy.json
    """

    def __init__(self, folder: Path, nameserver: str, **settings: object) -> None:
        self._libraries = classpath()
        self._folder = folder
        self._grpc, self._remoting = free_port(), free_port()
        self._settings = {
            "rocketMQClusterName": CLUSTER, "proxyMode": "CLUSTER", "namesrvAddr": nameserver,
            "grpcServerPort": self._grpc, "remotingListenPort": self._remoting, **settings,
        }  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def grpc(self) -> int:
        """The port for clients by gRPC."""
        return self._grpc

    @property
    def remoting(self) -> int:
        """The port for clients by remoting, of which it is the name server too."""
        return self._remoting

    def port(self, name: str) -> int:
        """The port for clients by `grpc` or `remoting`, as `Node.port`."""
        return {"grpc": self._grpc, "remoting": self._remoting}[name]

    def __enter__(self) -> Self:
        (self._folder / "conf").mkdir(parents=True, exist_ok=True)
        (self._folder / "conf" / "rmq-proxy.json").write_text(json.dumps(self._settings))
        homes = (f"-Drocketmq.home.dir={self._folder}", f"-Duser.home={self._folder}")
        command = [*jvm(self._libraries, *homes), "org.apache.rocketmq.proxy.ProxyStartup"]
        with (self._folder / "output.txt").open("wb") as output:
            self._process = subprocess.Popen(
                bound(command), stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd=self._folder,
                env={**os.environ, "RMQ_PROXY_HOME": str(self._folder)},
            )  # fmt: skip
        try:
            self._ready(self._process)
        except AssertionError:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop()

    def text(self) -> str:
        """The end of what it has printed."""
        return (self._folder / "output.txt").read_text(errors="replace")[-4000:]

    def _ready(self, process: subprocess.Popen[bytes]) -> None:
        limit = time.monotonic() + START_S
        while "startup successfully" not in self.text():
            assert process.poll() is None, f"the proxy has ended:\n{self.text()}"
            assert time.monotonic() < limit, f"the proxy does not start:\n{self.text()}"
            time.sleep(0.1)

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()  # by itself it waits for its long polls
        process.wait()
