"""Apache's own integration tests of its gRPC proxy (rocketmq-test 5.5.0, GrpcBaseIT), on a node instead of the proxy.

`NodeGrpc.java` lists what it changes. All tests run at the same time, since most of their time is waiting.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.interop.rocketmq.places import NODE, Place, place
from tests.interop.workshop import CLIENTS, java_classpath, jvm

pytestmark = pytest.mark.interop
PROJECT = CLIENTS / "java" / "grpc_suite"
MAIN = "org.apache.rocketmq.test.grpc.v2.NodeGrpc"
TESTS = 10
RUN_S = 200
"""The tests take half a minute; the bound is two minutes, for a loaded machine."""


def run(there: Place, folder: Path, apache: bool = False) -> str:
    """The tests with a home in `folder` -> what is said, with `ran N, failed M` at its end. Skips without Java or Maven.

    apache   the place is Apache's proxy
    """
    classpath = java_classpath(PROJECT, "Apache's tests of its gRPC proxy")
    places = (f"-Dnamesrv={there.nameserver}", f"-Dgrpc={there.grpc.rpartition(':')[2]}", f"-Dapache={str(apache).lower()}")
    homes = (f"-Duser.home={folder}", f"-Drocketmq.home.dir={folder}")
    command = [*jvm(classpath, *homes, *places), MAIN]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False, stdin=subprocess.DEVNULL)
    return done.stdout[-6000:] + done.stderr[-3000:]


def test_the_tests_of_the_proxy_pass_on_a_node(tmp_path: Path) -> None:
    with place(NODE, tmp_path) as there:
        said = run(there, tmp_path)
    assert f"ran {TESTS}, failed 0" in said, said
