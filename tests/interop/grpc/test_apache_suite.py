"""Apache's own integration tests of its gRPC proxy (rocketmq-test 5.5.0, GrpcBaseIT), on a node instead of the proxy.

`NodeGrpc.java` lists what it changes. All tests run at the same time, since most of their time is waiting.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.interop.node import Node
from tests.interop.workshop import CLIENTS, JVM, java_classpath

pytestmark = pytest.mark.interop
PROJECT = CLIENTS / "java" / "grpc_suite"
MAIN = "org.apache.rocketmq.test.grpc.v2.NodeGrpc"
TESTS = 10
RUN_S = 200
"""The tests take half a minute; the bound is two minutes, for a loaded machine."""


def test_the_tests_of_the_proxy_pass_on_a_node(tmp_path: Path) -> None:
    classpath = java_classpath(PROJECT, "Apache's tests of its gRPC proxy")
    with Node(tmp_path / "node", "--durability", "page") as node:
        places = (f"-Dnamesrv=127.0.0.1:{node.port('nameserver')}", f"-Dgrpc={node.port('grpc')}")
        homes = (f"-Duser.home={tmp_path}", f"-Drocketmq.home.dir={tmp_path}")
        command = [*JVM, *homes, *places, "-cp", classpath, MAIN]
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False, stdin=subprocess.DEVNULL)
    assert f"ran {TESTS}, failed 0" in done.stdout, done.stdout[-6000:] + done.stderr[-3000:]
    assert done.returncode == 0
