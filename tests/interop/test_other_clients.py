"""Unmodified clients other than Apache's SDKs for Java, Go, Python, Node and Rust, all on one node at once:

- Spring Boot's starter `rocketmq-spring-boot-starter` 2.3.5, which contains the Java client 5.3.2. Its requests are not
  tested: that client stops waiting for a reply as soon as a request is sent (apache/rocketmq issue 9319).
- Spring Boot's starter for gRPC, `rocketmq-v5-client-spring-boot-starter` 2.3.1, which contains the Java client 5.0.7.
- `ali-ons` 3.12.0 for Node.js.
- the C++ client, in PyPI's package `rocketmq` 0.4.4 for Python.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.interop.grpc.setup import make_group, make_topic
from tests.interop.node import Node
from tests.interop.remoting.java import scenes
from tests.interop.workshop import CLIENTS, java_classpath, jvm, made, node_scripts

pytestmark = pytest.mark.interop
CPP = "rocketmq==0.4.4"
RUN_S = 150
SPRING = ("convert", "orderly", "delayed", "transaction", "pulled")
SPRING5 = {"normal": "NORMAL", "fifo": "FIFO", "delayed": "DELAY", "received": "NORMAL", "transaction": "TRANSACTION"}
"""Scene -> the type of its topic."""
BODIES = ("sync", "oneway", "batch0", "batch1", "batch2", "x" * 10, "again", "late")


@dataclass(frozen=True)
class Told:
    """Each client's process, or the reason why it was not run."""

    spring: Future[subprocess.CompletedProcess[str]] | str
    spring5: Future[subprocess.CompletedProcess[str]] | str
    ons: Future[subprocess.CompletedProcess[str]] | str
    cpp: Future[subprocess.CompletedProcess[str]] | str


def cpp_package() -> Path:
    """Folder of the package and its library for Linux on x86-64, separate from the SDK with the same module name."""

    def make(folder: Path) -> None:
        options = ("-q", "--no-deps", "--only-binary=:all:", "--target", str(folder))
        command = [sys.executable, "-m", "pip", "install", *options, CPP]
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False)
        if done.returncode != 0:
            pytest.skip(f"pip could not get {CPP}: the client for C++ was not run: {done.stderr[-300:]}")

    return made("python-cpp", [CPP], make)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    home = tmp_path_factory.mktemp("home")
    environment = {**os.environ, "HOME": str(home)}

    def run(command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False, cwd=home, env=environment)

    def begin(pool: ThreadPoolExecutor, command: Callable[[], list[str]]) -> Future[subprocess.CompletedProcess[str]] | str:
        try:
            return pool.submit(run, command())
        except pytest.skip.Exception as absent:
            return str(absent)

    with Node(tmp_path_factory.mktemp("node")) as node, ThreadPoolExecutor() as pool:
        for scene in SPRING:
            make_topic(node, f"Spring-{scene}", "MIXED")
        for topic in ("Ons", "Cpp", "Cpp-orderly"):
            make_topic(node, topic, "MIXED")
        for scene, kind in SPRING5.items():
            make_topic(node, f"Spring5-{scene}", kind)
        make_group(node, "Spring5-fifo-group", orderly=True)
        server = f"127.0.0.1:{node.port('nameserver')}"

        def spring() -> list[str]:
            classes = java_classpath(CLIENTS / "java" / "spring", "the starter for Spring Boot")
            return [*jvm(classes, f"-Duser.home={home}"), "shop.Shop", server, "Spring"]

        def spring5() -> list[str]:
            classes = java_classpath(CLIENTS / "java" / "spring5", "the starter for Spring Boot over gRPC")
            endpoint = f"127.0.0.1:{node.port('grpc')}"
            return [*jvm(classes, f"-Duser.home={home}"), "shop5.Shop5", endpoint, "Spring5"]

        def ons() -> list[str]:
            return ["node", str(node_scripts(CLIENTS / "nodejs_ons", "ali-ons") / "client.js"), server, "Ons"]

        def cpp() -> list[str]:
            return [sys.executable, str(Path(__file__).parent / "remoting" / "cpp.py"), str(cpp_package()), server, "Cpp"]

        yield Told(begin(pool, spring), begin(pool, spring5), begin(pool, ons), begin(pool, cpp))


def ended(run: Future[subprocess.CompletedProcess[str]] | str) -> str:
    """The output of a client, which must have ended with status 0."""
    if isinstance(run, str):
        pytest.skip(run)
    done = run.result()
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize("scene", SPRING)
def test_the_starter_for_spring_boot(told: Told, scene: str) -> None:
    found = scenes(ended(told.spring))
    assert found.get(scene, "nothing was said").startswith(f"OK {scene} "), found.get(scene)


@pytest.mark.parametrize("scene", SPRING5)
def test_the_starter_for_spring_boot_over_grpc(told: Told, scene: str) -> None:
    found = scenes(ended(told.spring5))
    assert found.get(scene, "nothing was said").startswith(f"OK {scene} "), found.get(scene)


def test_ali_ons_sends_and_consumes_by_tag_by_sql_and_all_of_it(told: Told) -> None:
    found: dict[str, Any] = json.loads(ended(told.ons).splitlines()[-1])
    assert found["sent"] == ["SEND_OK"] * 4
    tagged = sorted((each["body"], each["times"]) for each in found["tagged"])
    assert tagged == [("again", 0), ("again", 1), ("one", 0), ("two", 0), ("x" * 10, 0)]
    assert {each["size"] for each in found["tagged"] if each["body"] == "x" * 10} == {100_000}
    assert all((each["keys"], each["place"]) == (f"key-{each['body']}", "Zürich") for each in found["tagged"])
    assert sorted(each["body"] for each in found["weighed"]) == ["again", "again", "other"]
    for each in found["everywhere"]:
        assert sorted(one["body"] for one in each) == ["again", "one", "other", "two", "x" * 10]


def test_the_client_for_cpp_sends_in_each_way_consumes_and_pulls(told: Told) -> None:
    """The library refuses all messages of a batch together, so others of them may be delivered again besides `again`."""
    found: dict[str, Any] = json.loads(ended(told.cpp).splitlines()[-1])
    assert {each["body"] for each in found["push"]} == set(BODIES)
    assert sorted(each["times"] for each in found["push"] if each["body"] == "again") == [0, 1]
    assert all((each["keys"], each["tag"], each["place"]) == (f"key-{each['body']}", "A", "Zürich") for each in found["push"])
    assert found["orderly"] == [f"m{at}" for at in range(20)]
    assert found["pull"] == [f"m{at}" for at in range(20)]
