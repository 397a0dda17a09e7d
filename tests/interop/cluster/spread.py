"""A node of the tests as a cluster: a store, gateways on other loopback addresses with the same ports, and a balancer.

127.0.0.1   balancer, and the admin port of the store
127.0.0.2…  gateways; they advertise the balancer, and have 1, 2, 3, … connections to the store
127.0.0.99  the store's remoting port
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO, Final

from gateway.node.protocols import installed

ROOT: Final = Path(__file__).resolve().parents[3]
BALANCER: Final = "127.0.0.1"
STORE: Final = "127.0.0.99"
VARIABLE: Final = "TEST_GATEWAYS"
STOP_S: Final = 45.0


class Spread:
    """The processes beside that of the store."""

    def __init__(self, gateways: int) -> None:
        self._hosts = [f"127.0.0.{2 + number}" for number in range(gateways)]
        self._gateways: list[subprocess.Popen[bytes]] = []
        self._balancer: subprocess.Popen[bytes] | None = None

    @classmethod
    def of_environment(cls) -> Spread | None:
        """As many gateways as the environment of the tests says; None: no cluster."""
        count = int(os.environ.get(VARIABLE, "0"))
        return cls(count) if count else None

    @property
    def pids(self) -> list[int]:
        """The process ids of the gateways."""
        return [process.pid for process in self._gateways]

    def store(self, data: Path) -> list[str]:
        """The arguments of the store."""
        return [
            "run", "--roles", "store", "--data", str(data), "--host", STORE, "--advertise", BALANCER,
            "--admin-host", BALANCER,
        ]  # fmt: skip

    def spawn(
        self,
        data: Path,
        ports: dict[str, int],
        options: list[str],
        environment: dict[str, str],
        log: IO[bytes],
        key: Path | None,
    ) -> None:
        """Start gateways and balancer. `key`: a file with NAME:PASSWORD of a Super user of the store."""
        options = [*options, "--store", f"{STORE}:{ports['remoting']}"]
        if key is not None:
            options += ["--access-key-file", str(key)]
        if "--tls-only" in options:
            # Its certificate is its own authority.
            options += ["--store-ca", options[options.index("--certificate") + 1]]
        for number, host in enumerate(self._hosts, 1):
            where = ["--host", host, "--admin-host", host, "--advertise", BALANCER, "--data", str(data)]
            command = [sys.executable, "-m", "gateway", "run", "--roles", "gateway", *where, *options]
            own = {**environment, "HEADGATE_GATEWAY_CONNECTIONS": str(number)}
            self._gateways.append(self._start(command, own, log))
        wanted = [
            f"{'udp' if listener.datagrams else 'tcp'}:{ports[name]}"
            for name, listener in installed().listeners.items()
            if name != "admin"
        ]
        command = [sys.executable, "-m", "tests.interop.cluster.balancer", BALANCER, ",".join(self._hosts), *wanted]
        self._balancer = self._start(command, environment, log)

    def _start(self, command: list[str], environment: dict[str, str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)

    def ready(self, ports: dict[str, int]) -> bool:
        """True when all gateways serve, and the balancer with them; else after a moment."""
        for host in self._hosts:
            try:
                urllib.request.urlopen(f"http://{host}:{ports['admin']}/readyz", timeout=5).close()
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
                return False
        return True

    def metrics(self, page: str, port: int, fields: dict[str, str]) -> str:
        """The metrics page of the store with those of the gateways: each sample is the sum of all."""
        sums: dict[str, float] = {}
        pages = [page]
        for host in self._hosts:
            request = urllib.request.Request(f"http://{host}:{port}/metrics", headers=fields)
            with urllib.request.urlopen(request, timeout=5) as answer:
                pages.append(answer.read().decode())
        for line in "\n".join(pages).splitlines():
            name, _, value = line.rpartition(" ")
            if name and not line.startswith("#"):
                sums[name] = sums.get(name, 0.0) + float(value)
        return "\n".join(
            [*(line for line in page.splitlines() if line.startswith("#")), *(f"{k} {v}" for k, v in sums.items())]
        )

    def end(self, number: int) -> None:
        """End gateways and balancer as the store is ended next."""
        gateways, self._gateways = self._gateways, []
        for process in gateways:
            process.send_signal(number)
        for process in gateways:
            try:
                status = process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise AssertionError(f"a gateway did not stop within {STOP_S} s") from None
            assert status == 0 or number == signal.SIGKILL, f"a gateway ended with status {status}"
        if self._balancer is not None:
            self._balancer.kill()
            self._balancer.wait()
            self._balancer = None
