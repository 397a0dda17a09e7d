"""A node without webhooks, CoAP, Spark, lite topics and import: their folders and entry points are all that ties them to it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.interop.node import ROOT

PACKAGES = ("domain", "protocols", "store", "nameserver", "controller", "gateway")
WEBHOOKS = ("gateway/webhooks",)
COAP = ("protocols/coap", "gateway/pubsub")
SPARK = ("gateway/connectors",)
REST = ("gateway/usecase/lite", "gateway/importing")
PROGRAM = """
import asyncio, base64, json, sys, urllib.error, urllib.request
from gateway.client.link import Link
from gateway.node.composition import known
from gateway.node.node import Node
from gateway.node.settings import load

def ask(port, path, body=None):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", body, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()

def play(ports):
    print("send", ask(ports["http"], "/v1/topics/orders/messages", b"one bicycle")[0])
    received = json.loads(ask(ports["http"], "/v1/groups/shop/topics/orders:receive?max=1&wait_ms=5000", b"")[1])
    print("receive", *(base64.b64decode(each["body"]).decode() for each in received["messages"]))
    print("subscribe", *ask(ports["http"], "/subscriptions"))
    link = Link(f"127.0.0.1:{ports['nameserver']}", 20)
    (route,) = link.ask([(105, {"topic": "orders"}, b"")])
    link.close()
    print("route", route.code, b"brokerDatas" in route.body)

async def run():
    options = {"data": sys.argv[1], **{f"ports.{name}": 0 for name in known().ports}}
    node = Node(load(options, {}, known()))
    await node.start()
    await asyncio.to_thread(play, node.ports)
    await node.stop()

asyncio.run(run())
print("coap", sum(name.startswith("protocols.coap.") for name in sys.modules))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the product, without the parts that a node can do without."""
    root = tmp_path_factory.mktemp("tree")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    left_out = (*WEBHOOKS, *COAP, *SPARK, *REST)
    for folder in left_out:
        shutil.rmtree(root / folder)
    told = root / "headgate-0.dist-info"  # found before the one that is installed
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: headgate\nVersion: 0\n")
    (told / "entry_points.txt").write_text(entry_points(tuple(f"{folder.replace('/', '.')}." for folder in left_out)))
    return root


def entry_points(left_out: tuple[str, ...]) -> str:
    """The entry points of the project without those of modules that are left out, as a distribution has them."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
    lines: list[str] = []
    for group, points in groups.items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items() if not value.startswith(left_out))]
    return "\n".join(lines) + "\n"


def run(tree: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tree), "HEADGATE_PURE": "1"},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_a_node_without_them_serves_everything_else(tree: Path, tmp_path: Path) -> None:
    done = run(tree, tmp_path, "-c", PROGRAM, str(tmp_path / "data"))
    assert done.returncode == 0, done.stderr[-4000:]
    lines = {name: said for name, _, said in (line.partition(" ") for line in done.stdout.splitlines())}
    assert (lines["send"], lines["receive"], lines["route"], lines["coap"]) == ("201", "one bicycle", "0 True", "0")
    assert lines["subscribe"].startswith("501 "), lines["subscribe"]
    assert "not served by this node" in lines["subscribe"]


def test_its_command_has_neither_their_verbs_nor_their_tables(tree: Path, tmp_path: Path) -> None:
    helped = run(tree, tmp_path, "-m", "gateway", "--help").stdout
    assert "backup" in helped
    assert "import" not in helped
    refused = run(tree, tmp_path, "-m", "gateway", "config", "check", "--set", "webhook.deliver=false")
    assert refused.returncode == 2
