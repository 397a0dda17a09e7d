"""Access keys of SDKs: valid keys work, a missing right and a wrong password give the SDK's own error.

The Java SDKs of both protocols and the Python SDK are in `test_access.py`. All clients run at once.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from tests.interop.grpc.test_rust import client as rust_client
from tests.interop.node import Node
from tests.interop.remoting.java import PROJECT, build
from tests.interop.test_access import ALICE
from tests.interop.test_access_transaction import ROOT_PASSWORD, remoting
from tests.interop.workshop import CLIENTS, go_program, node_scripts

pytestmark = pytest.mark.interop
__all__ = ["rust_client"]
RUN_S = 150
CREATE_USER = 3001
PASSWORD = "wonderland"
NO_RIGHT = "User:alice has no permission for Pub on Topic:closed"
REFUSALS = {
    "go-grpc": (NO_RIGHT, "check signature failed"),
    "node-grpc": (f"UnauthorizedException: [request-id=undefined, response-code=40100] {NO_RIGHT}", "fetch topic routes"),
    "rust-grpc": (f"UNAUTHORIZED     message: {NO_RIGHT}", "UNAUTHORIZED     message: check signature failed"),
    "go-remoting": (f"CODE: 16, DESC: {NO_RIGHT}", "route info not found"),
    "java4-remoting": (f"CODE: 16  DESC: {NO_RIGHT}", "No route info of this topic"),
}
"""Client -> text in its error for a topic that the user may not send to, and for a wrong password.

Remoting clients and the Node SDK look for the topic's route first and report only that there is none.
"""


@dataclass(frozen=True)
class Told:
    """Client -> its process, or the reason why it was not run."""

    runs: dict[str, Future[subprocess.CompletedProcess[str]] | str]

    def of(self, client: str) -> dict[str, str]:
        """A client's output, by case."""
        run = self.runs[client]
        if isinstance(run, str):
            pytest.skip(run)
        done = run.result()
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        rows = [line.split("\t", 1) for line in done.stdout.splitlines()]
        return {row[0]: row[1] for row in rows if len(row) == 2}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Told]:
    folder = tmp_path_factory.mktemp("access")
    file = folder / "headgate.toml"
    file.write_text(f'durability = "page"\n{ALICE}')
    with (
        Node(
            folder,
            "--config",
            str(file),
            environment={"HEADGATE_ADMIN": f"root:{ROOT_PASSWORD}", "HEADGATE_GRPC_SIGNATURE_AGE_S": "86400"},
        ) as node,
        ThreadPoolExecutor() as pool,
    ):
        made = {"username": "alice", "password": PASSWORD, "userType": "Normal", "userStatus": "enable"}
        assert remoting(node, "root", CREATE_USER, {"username": "alice"}, json.dumps(made).encode()) == 0
        nameserver, broker, endpoint = (f"127.0.0.1:{node.port(name)}" for name in ("nameserver", "remoting", "grpc"))
        keys = ("closed", "alice", PASSWORD)

        def go(project: str) -> list[str]:
            return [str(go_program(CLIENTS / "go" / project, f"the {project} client for Go")), "guarded"]

        def rust() -> list[str]:
            return [str(request.getfixturevalue("rust_client")), endpoint, "guarded", "openRust", "readersRust", *keys]

        def node_sdk() -> list[str]:
            script = node_scripts(CLIENTS / "nodejs", "the gRPC SDK for Node") / "guarded.js"
            return ["node", str(script), endpoint, "openNode", "readersNode", *keys]

        def java4() -> list[str]:
            java = build(tmp_path_factory.mktemp("java4"), PROJECT.parent / "remoting4")
            return [*java.command("Guarded"), nameserver, "openJava4", "readersJava4", *keys]

        commands: dict[str, Callable[[], list[str]]] = {
            "go-grpc": lambda: [*go("grpc"), endpoint, "openGo", "readersGo", *keys],
            "node-grpc": node_sdk,
            "rust-grpc": rust,
            "go-remoting": lambda: [*go("remoting"), nameserver, "openGo2", broker, *keys],
            "java4-remoting": java4,
        }

        def begin(name: str) -> Future[subprocess.CompletedProcess[str]] | str:
            home = tmp_path_factory.mktemp(name)
            more = {"HOME": str(home), "rocketmq.client.logRoot": str(home), "rocketmq.client.enableSsl": "false"}
            try:
                command = commands[name]()
            except pytest.skip.Exception as absent:
                return str(absent)
            return pool.submit(
                subprocess.run, command, capture_output=True, text=True, timeout=RUN_S, check=False, cwd=home,
                env={**os.environ, **more},
            )  # fmt: skip

        yield Told({name: begin(name) for name in commands})


@pytest.mark.parametrize("client_", REFUSALS)
def test_keys_of_an_sdk(told: Told, client_: str) -> None:
    found = told.of(client_)
    print(client_, found)
    closed, wrong = REFUSALS[client_]
    assert found["right"] == "5"
    assert closed in found["closed"]
    assert wrong in found["wrong"]
