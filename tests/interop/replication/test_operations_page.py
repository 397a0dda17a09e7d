"""The part of docs/operations.md about a store group of three nodes, typed as it stands there: files and commands.

Addresses and folders are replaced, and words in capitals that stand for something; nothing else is.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.interop.controller.controllers import until
from tests.interop.node import Node
from tests.interop.replication.group import post, read_all
from tests.interop.warm import headgate
from tests.pages import Page, arguments

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]
SECTION: Final = "A store group of three nodes"
PORTS: Final = {9878: "controller", 10911: "remoting", 10912: "replication"}
STATUS: Final = "headgate cluster status --controller 10.0.0.1:9878"
GATEWAY: Final = (
    "HEADGATE_CLUSTER=main headgate run --roles gateway --store 10.0.0.1:10911,10.0.0.2:10911,10.0.0.3:10911 --data ./gateway"
)  # fmt: skip
ADD: Final = "headgate cluster add broker-a --address 10.0.0.4:10912 --controller 10.0.0.1:9878 > node.toml"
AWAIT: Final = "headgate cluster repair broker-a --seconds 600 --controller 10.0.0.2:9878"
AWAIT_ALL: Final = "headgate cluster repair broker-a --replicas 4"
MOVE: Final = "headgate cluster move GROUP REPLICA"
SET: Final = "headgate cluster set GROUP --min-in-sync N"
ONE_LESS: Final = "headgate cluster remove broker-a 3"
FORGET: Final = "headgate cluster remove GROUP REPLICA"
AWAIT_GROUP: Final = "headgate cluster repair GROUP --seconds 600"
RECOVER: Final = "headgate cluster recover broker-a 3"
TYPED: Final = {STATUS, ADD, AWAIT, AWAIT_ALL, MOVE, SET, ONE_LESS, FORGET, AWAIT_GROUP, RECOVER}
ELSEWHERE: Final = {
    "headgate cluster status --controller 10.0.0.5:9878": "the same with another address",
    "headgate cluster": "its name alone",
    "headgate cluster status": "its name alone",
    "headgate cluster move": "its name alone",
    "headgate cluster move broker-a 3": "the same with a number, and test_moves.py",
    "headgate cluster recover": "its name alone",
    "headgate cluster repair": "its name alone",
    "headgate cluster set GROUP --min-in-sync 2": "the same with a number",
    "headgate cluster set broker-a --min-in-sync 1": "the same with a number",
    "headgate cluster remove broker-a OLD": "the same with a number",
    "headgate cluster set GROUP --acks N": "test_acks.py",
    "headgate cluster promote GROUP REPLICA": "test_promotion.py",
    "headgate cluster remove GROUP ID…": "test_single_node.py",
    "headgate cluster remove GROUP --all --even-living": "test_single_node.py",
    "headgate cluster restore-controllers GROUP": "test_losses.py",
    "headgate cluster restore-controllers GROUP --replicas N": "test_losses.py",
    "headgate cluster renew-controller DIR": "tests/gateway/cluster/operator/test_commands.py",
}
"""Commands of the page that are not typed here, and why."""


class Machines:
    """Four machines on this one: 10.0.0.N of the page is node N, with ports of its own."""

    def __init__(self, folder: Path, page: Page) -> None:
        self.page = page
        self._folder = folder
        start = next(line for line in page.block(SECTION, "ini").splitlines() if line.startswith("ExecStart="))
        program, verb, *options = start.removeprefix("ExecStart=").split()
        assert (Path(program).name, verb) == ("headgate", "run")
        self.file = options[options.index("--config") + 1]
        at = options.index("--data")
        self._options = [*options[:at], *options[at + 2 :]]
        self.nodes = {number: self._node(number, self._options) for number in (1, 2, 3)}

    def _node(self, number: int, options: list[str]) -> Node:
        folder = self._folder / f"machine-{number}"
        folder.mkdir()
        node = Node(folder, *(str(folder / "node.toml") if each == self.file else each for each in options), verb="run")
        node.choose_ports()
        return node

    def fourth(self) -> Node:
        """The machine that is added: as the printed configuration says, by `headgate run --roles gateway,store`."""
        node = self.nodes[4] = self._node(4, ["--roles", "gateway,store", "--config", self.file])
        return node

    def here(self, text: str) -> str:
        """A text of the page with the addresses of this machine."""

        def found(match: re.Match[str]) -> str:
            return f"127.0.0.1:{self.nodes[int(match[1])].port(PORTS[int(match[2])])}"

        return re.sub(r"10\.0\.0\.(\d):(\d+)", found, text)

    def configure(self, number: int) -> None:
        """Write the file of the page on a machine: only `advertise` and the last line differ."""
        lines = self.page.block(SECTION, "toml").rstrip("\n").splitlines()
        own = [at for at, line in enumerate(lines) if line.startswith("advertise")]
        for at in (*own, len(lines) - 1):
            assert "10.0.0.1" in lines[at]
            lines[at] = lines[at].replace("10.0.0.1", f"10.0.0.{number}")
        text = self.here("\n".join(lines)).replace("0.0.0.0", "127.0.0.1")
        text = re.sub(r'"10\.0\.0\.\d"', '"127.0.0.1"', text)
        (self._folder / f"machine-{number}" / "node.toml").write_text(text)

    def type(self, command: str, names: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Type a command of the page. `names`: word that stands for something -> that."""
        assert command in self.page.commands("headgate"), f"{command!r} does not stand in the page"
        words = [(names or {}).get(each, each) for each in arguments(self.here(command))]
        at = ",".join(f"127.0.0.1:{self.nodes[number].port('controller')}" for number in (1, 2, 3))
        return headgate(*words[1:], HEADGATE_CONTROLLER=at)

    def done(self, command: str, names: Mapping[str, str] | None = None) -> str:
        """Type a command that ends with status 0 -> what it has printed."""
        done = self.type(command, names)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def replica(self, node: Node) -> str:
        """Number of the replica of a node, by the table of status."""
        address = f"127.0.0.1:{node.port('replication')}"
        return next(line.split()[0] for line in self.type(STATUS).stdout.splitlines() if f" {address} " in line)

    def leader(self) -> Node:
        """The node that serves."""
        found: list[Node] = []

        def one() -> bool:
            found[:] = [node for node in self.nodes.values() if node.serves()]
            return bool(found)

        until(one, "a replica leads")
        return found[0]

    def close(self) -> None:
        for node in self.nodes.values():
            node.kill()


def _sent(node: Node, body: str) -> None:
    until(lambda: post(node, "orders", body, 10.0), f"{body!r} is taken")


def test_every_command_for_clusters_in_the_page_is_typed_here_or_said_where() -> None:
    found = [each for each in Page("docs/operations.md").commands("headgate") if each.startswith("headgate cluster")]
    assert len(found) > 10
    assert set(found) == TYPED | set(ELSEWHERE)


def test_the_page_about_three_nodes_does_what_it_says(tmp_path: Path) -> None:
    machines = Machines(tmp_path, Page("docs/operations.md"))
    nodes = machines.nodes
    try:
        for number, node in nodes.items():
            machines.configure(number)
            node.spawn()
        until(lambda: machines.type(STATUS).returncode == 0, "all is well")
        assert machines.done(STATUS).rstrip().endswith("all is well")
        with _gateway(machines, tmp_path) as gateway:
            _sent(gateway, "by the gateway")

            follower = next(node for node in nodes.values() if node is not machines.leader())
            assert follower.stop() == 0  # systemctl restart headgate
            follower.spawn()
            machines.done(AWAIT)
            machines.done(MOVE, {"GROUP": "broker-a", "REPLICA": machines.replica(follower)})
            until(follower.serves, "the replica leads that was named")
            machines.done(SET, {"GROUP": "broker-a", "N": "2"})
            _sent(gateway, "after the move")

            fourth = machines.fourth()
            printed = machines.done(ADD)
            (fourth.folder / "node.toml").write_text(printed)
            fourth.spawn()
            until(lambda: f"127.0.0.1:{fourth.port('replication')}" in machines.type(STATUS).stdout, "it is registered")
            machines.done(AWAIT_ALL)
            alive = machines.type(RECOVER)
            assert alive.returncode == 2, "replicas that have all records are alive"
            assert "nothing was changed" in alive.stderr

            third = next(node for node in nodes.values() if machines.replica(node) == "3")
            assert machines.type(ONE_LESS).returncode == 2, "it is alive"
            last = machines.replica(fourth)  # before the third one stops: it may be the one that the page asks
            assert third.stop() == 0
            until(lambda: machines.type(ONE_LESS).returncode == 0, "the replica is forgotten")
            assert fourth.stop() == 0
            forget = {"GROUP": "broker-a", "REPLICA": last}
            until(lambda: machines.type(FORGET, forget).returncode == 0, "the fourth one is forgotten")
            machines.done(AWAIT_GROUP, {"GROUP": "broker-a"})
            _sent(gateway, "at the end")
            found = read_all(machines.leader(), "orders")
            assert {"by the gateway", "after the move", "at the end"} <= set(found)
    finally:
        machines.close()


def _gateway(machines: Machines, folder: Path) -> Node:
    """The gateway of the page."""
    assert GATEWAY in machines.page.commands("HEADGATE_CLUSTER=main")
    variable, *words = arguments(machines.here(GATEWAY))
    assert (words[:2], words[-2:]) == (["headgate", "run"], ["--data", "./gateway"])
    return Node(folder / "gateway", *words[2:-2], verb="run", environment=dict([variable.split("=")]))
