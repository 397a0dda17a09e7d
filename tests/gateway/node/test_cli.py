"""The command as a person meets it: its own process, one line for each mistake, a clean start and end."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cluster.operator.commands import cluster
from gateway.node.cli import app, settings
from gateway.node.entry_points import load_all
from tests.interop.node import ROOT, Node, free_ports


def headgate(*arguments: str, folder: Path, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run `headgate` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "gateway", *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **(environment or {})},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["up", "--hosts", "x"], "No such option: --hosts"),
        (["upp"], "No such command 'upp'"),
        (["backup"], "Missing argument 'FOLDER'. See headgate backup --help."),
        (["up", "--port-offset", "many"], "--port-offset"),
        (["up", "--port", "mqtt"], "NAME=N is wanted"),
        (["up", "--roles", "store"], "start a part with headgate run"),
        (["up", "--replicas", "2"], "--replicas is 2: 3 or 5 are possible"),
        (["up", "--replicas", "3", "--host", "10.0.0.1"], "--host does not go with --replicas"),
        (["run", "--replicas", "3"], "No such option: --replicas"),
        (["run", "--roles", "broker"], "some of gateway, store, nameserver, controller are wanted"),
        (["run", "--roles", "gateway"], "name it by --store HOST:PORT"),
        (["run", "--roles", "gateway", "--store", "elsewhere"], "HOST:PORT of the node's remoting port is wanted"),
        (["run", "--roles", "gateway", "--store", "a:1", "--access-key-file", "none"], "gateway.access_key_file"),
        (["run", "--roles", "gateway", "--store", "a:1", "--store-ca", "none.pem"], "gateway.store_ca none.pem"),
        (["up", "--port", "mqqt=1"], "did you mean 'ports.mqtt'"),
        (["up", "--host", "0.0.0.0"], "--insecure"),
        (["up", "--durability", "eternal"], "one of page, flushed"),
        (["up", "--config", "nowhere.toml"], "nowhere.toml cannot be read"),
        (["up", "--host", "192.0.2.1", "--insecure"], "cannot listen on 192.0.2.1"),
    ],
)
def test_mistakes_cost_one_line_and_exit_code_2(arguments: list[str], said: str, tmp_path: Path) -> None:
    result = headgate(*arguments, folder=tmp_path)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("headgate: ")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[store]\nsegment_byte = 3", "did you mean 'segment_bytes'"),
        ("[policy]\nqueues = 2.5", "a whole number is wanted"),
        ("[limits]\nmessage_per_s = 3", "did you mean 'messages_per_s'"),
        ("[proxy]\npeers = ['10.0.0.0/40']", "proxy.peers"),
    ],
)
def test_tables_of_parts_are_checked_too(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "headgate.toml").write_text(text)
    ports = [f"--port={name}={port}" for name, port in free_ports().items()]
    result = headgate("up", "--config", "headgate.toml", *ports, folder=tmp_path)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert said in result.stderr


def test_the_help_of_every_command_has_an_example() -> None:
    commands = [*app.registered_commands, *settings.registered_commands, *cluster.registered_commands]
    texts = [each.callback.__doc__ or "" for each in commands if each.callback and each.callback.__name__ != "version"]
    texts += [installed.__doc__ or "" for installed in load_all("gateway.commands", str).values()]
    assert len(texts) >= 16
    assert [text for text in texts if "Example" not in text] == []


def test_version_and_configuration_are_shown(tmp_path: Path) -> None:
    assert headgate("version", folder=tmp_path).stdout.startswith("headgate 0.")
    result = headgate("config", "show", "--port", "mqtt=7", folder=tmp_path, environment={"HEADGATE_BROKER": "b2"})
    rows = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()}
    assert rows["ports.mqtt"] == ["7", "option", "--port", "mqtt"]
    assert rows["broker"] == ["b2", "environment", "HEADGATE_BROKER"]
    assert rows["durability"] == ["flushed", "default"]
    assert rows["limits.messages_per_s"] == ["0", "default"]
    assert rows["proxy.required"] == ["false", "default"]


def test_what_is_shown_is_checked_like_what_is_run(tmp_path: Path) -> None:
    file = tmp_path / "headgate.toml"
    file.write_text("[limits]\nmessages_per_s = 5\n[proxy]\npeers = ['10.0.0.0/8']\n")
    result = headgate("config", "show", "--config", "headgate.toml", folder=tmp_path)
    rows = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()}
    assert rows["limits.messages_per_s"] == ["5", "file", "headgate.toml"]
    assert rows["proxy.peers"] == ["['10.0.0.0/8']", "file", "headgate.toml"]
    file.write_text("[limits]\nmessage_per_s = 5\n")
    result = headgate("config", "show", "--config", "headgate.toml", folder=tmp_path)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "did you mean 'messages_per_s'" in result.stderr


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    return Node(tmp_path_factory.mktemp("cli"), "--durability", "page")


def test_up_is_ready_again_with_the_same_data_and_stops_cleanly(node: Node) -> None:
    with node:
        pass
    node.start()
    try:
        assert json.loads(node.admin("/readyz"))["ready"] is True
        assert json.loads(node.admin("/healthz"))["status"] == "serving"
        assert "headgate_up_seconds" in node.admin("/metrics")
    finally:
        ended = node.stop()
    assert ended == 0
    text = node.text()
    assert f"127.0.0.1:{node.port('mqtt')}" in text
    assert "page: an acknowledged message survives kill -9 of the server" in text
    assert "Traceback" not in text


def test_second_server_is_told_who_has_the_data_and_the_ports(node: Node, tmp_path: Path) -> None:
    node.start()
    try:
        ports = [f"--port={name}={node.port(name)}" for name in ("nameserver", "remoting")]
        same_data = headgate("up", "--data", str(node.data), folder=tmp_path)
        same_port = headgate("up", *ports, folder=tmp_path)
    finally:
        node.stop()
    assert f"is in use by process {node_pid(same_data)}: stop it" in same_data.stderr
    assert f"port {node.port('nameserver')} on 127.0.0.1 (nameserver) is taken" in same_port.stderr
    assert (same_data.returncode, same_port.returncode) == (2, 2)
    assert (same_data.stderr.count("\n"), same_port.stderr.count("\n")) == (1, 1)


def node_pid(result: subprocess.CompletedProcess[str]) -> int:
    """The process id in a refusal."""
    return int(result.stderr.split("process ")[1].split(":")[0])


def test_connections_are_closed_on_sigterm(node: Node) -> None:
    with node, socket.create_connection(("127.0.0.1", node.port("http"))) as idle:
        idle.sendall(b"GET /")
        assert node.stop() == 0
        assert idle.recv(100) == b""


def test_bytes_of_no_protocol_are_closed_and_counted(node: Node) -> None:
    node.start()
    try:
        for name in ("http", "mqtt", "grpc", "remoting", "mqtts"):
            with socket.create_connection(("127.0.0.1", node.port(name)), timeout=5) as stranger:
                stranger.sendall(b"\xff\xfe\xfd\xfc")
                assert stranger.recv(100) == b""
        assert 'reason="unrecognised"} 1' in node.admin("/metrics")
    finally:
        node.stop()


def test_a_group_is_not_begun_in_the_folder_of_a_single_node(tmp_path: Path) -> None:
    (tmp_path / "headgate-data" / "log").mkdir(parents=True)
    result = headgate("up", "--replicas", "3", folder=tmp_path)
    assert result.returncode == 2
    assert "has the messages of a single node: name another folder" in result.stderr
    assert not list((tmp_path / "headgate-data").glob("replica*"))
