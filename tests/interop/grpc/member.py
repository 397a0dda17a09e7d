"""A Java gRPC producer and push consumer in their own process, for the duration of a test."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from tests.interop.node import Node
from tests.patience import until

WAIT_S = 60


class Member:
    """`GrpcMember` on a node, as a context manager. `java`: the result of `grpc_java.compiled`."""

    def __init__(
        self, java: list[str], node: Node, folder: Path, topic: str, group: str, namespace: str = "", count: int = 0
    ) -> None:
        self._log = folder / f"member-{namespace or 'none'}-{group}.log"
        endpoint = f"127.0.0.1:{node.port('grpc')}"
        self._command = [*java, "GrpcMember", endpoint, namespace, topic, group, str(count)]
        self._count = count
        self._process: subprocess.Popen[bytes]

    def __enter__(self) -> Member:
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=output, stderr=output)
        self.until(lambda lines: ["ready"] in lines and sum(line[0] == "seen" for line in lines) >= self._count)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def lines(self) -> list[list[str]]:
        """Its output, as fields."""
        return [line.split("\t") for line in self._log.read_text(errors="replace").splitlines()]

    def until(self, holds: Callable[[list[list[str]]], bool]) -> None:
        """Wait until its output satisfies `holds`."""

        def said() -> bool:
            assert self._process.poll() is None, self._text()
            return holds(self.lines())

        until(said, WAIT_S, self._text)

    def _text(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]
