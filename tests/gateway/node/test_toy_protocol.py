"""A protocol is a folder and an entry point: one that a test installs outside of the tree is served like those inside it."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from domain.errors import ConfigError, ErrorCode
from gateway.node.composition import known
from gateway.node.protocols import Protocols, installed
from gateway.node.reference import page
from gateway.node.settings import load
from protocols.declaration import Declaration, Listener
from tests.gateway.node import toy_protocol
from tests.gateway.node.toy_protocol import PROTOCOL, ToyConfig
from tests.interop.node import ROOT, Node, free_ports

SETTINGS = '[toy]\ngreeting = "good evening"\nline_bytes_max = 32\n'


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for `sys.path`: the package `toyline`, and the entry point that a package installer would write beside it."""
    folder = tmp_path_factory.mktemp("packages")
    (folder / "toyline").mkdir()
    (folder / "toyline" / "__init__.py").write_text('"""The toy protocol."""\n')
    shutil.copy(Path(toy_protocol.__file__), folder / "toyline" / "adapter.py")
    about = folder / "toyline-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toyline\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[gateway.protocols]\ntoy = toyline.adapter:PROTOCOL\n")
    return folder


def paths(packages: Path) -> str:
    """The module search path of a process in which the package is installed."""
    return os.pathsep.join([str(packages), str(ROOT), os.environ.get("PYTHONPATH", "")])


@pytest.fixture(scope="module")
def node(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that has the toy, with settings of its own."""
    folder = tmp_path_factory.mktemp("node")
    (folder / "headgate.toml").write_text(SETTINGS)
    options = ("--config", str(folder / "headgate.toml"), "--port", f"toy={free_ports()['http']}")
    with Node(folder, *options, environment={"PYTHONPATH": paths(packages)}) as running:
        yield running


def toy_port(node: Node) -> int:
    """Where the toy listens: the last option says so."""
    return int(node.options[-1].partition("=")[2])


def said(connection: socket.socket, *lines: str) -> list[str]:
    """What is answered to lines, one answer each."""
    connection.sendall("".join(f"toy:{line}\n" for line in lines).encode())
    file = connection.makefile("r")
    return [file.readline().rstrip("\n") for _ in lines]


def secured(port: int, alpn: list[str]) -> ssl.SSLSocket:
    """A TLS connection that believes any certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(alpn)
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), 10))


@pytest.mark.parametrize("shared", [False, True])
def test_spoken_on_its_own_port_and_on_the_shared_one(node: Node, shared: bool) -> None:
    port = node.port("http") if shared else toy_port(node)
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        assert said(connection, "hello", "send orders text") == ["good evening", "stored"]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("alpn", [[], ["toy"]])
def test_spoken_over_tls(node: Node, shared: bool, alpn: list[str]) -> None:
    with secured(node.port("http") if shared else toy_port(node), alpn) as connection:
        assert connection.selected_alpn_protocol() == (alpn[0] if alpn else None)
        assert said(connection, "hello") == ["good evening"]


def test_other_protocols_are_told_apart_from_it(node: Node) -> None:
    with socket.create_connection(("127.0.0.1", node.port("http")), 10) as connection:
        connection.sendall(b"GET /v1/topics HTTP/1.1\r\nHost: a\r\n\r\n")
        assert connection.recv(64).startswith(b"HTTP/1.1 200")
    with socket.create_connection(("127.0.0.1", toy_port(node)), 10) as connection:
        connection.sendall(b"GET /v1/topics HTTP/1.1\r\nHost: a\r\n\r\n")
        assert connection.recv(64) == b""


def test_counted_under_its_name_and_its_words_under_their_reasons(node: Node) -> None:
    with socket.create_connection(("127.0.0.1", node.port("http")), 10) as connection:
        assert said(connection, "HELLO", "send orders text") == ["not so loud", "stored"]
        connection.sendall(b"toy:" + b"x" * 40)
        assert connection.recv(64) == b""
    counted = dict(re.findall(r'^headgate_(\w+\{protocol="toy".*\}) (\d+)\.0$', node.admin("/metrics"), re.MULTILINE))
    assert int(counted['messages_in_total{protocol="toy"}']) >= 1
    assert int(counted['connections_opened_total{protocol="toy"}']) >= 1
    assert counted['refusals_total{protocol="toy",reason="not-allowed"}'] == "1"
    assert counted['refusals_total{protocol="toy",reason="message-too-large"}'] == "1"
    assert counted['disconnects_total{protocol="toy",reason="message-too-large"}'] == "1"


def test_shown_in_the_table_at_the_start(node: Node) -> None:
    shown = re.findall(r"^  (\w+) +127\.0\.0\.1:(\d+) +(.*)$", node.text(), re.MULTILINE)
    names = [name for name, _, _ in shown]
    assert shown[names.index("toy")] == ("toy", str(toy_port(node)), "Lines for the test of plugging in")
    assert names[:3] == ["nameserver", "remoting", "vip"]
    assert names[-2:] == ["toy", "admin"]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("greting = 'x'", "toy.greting is unknown; did you mean 'greeting'?"),
        ("line_bytes_max = 5", "toy.line_bytes_max is 5: a whole number from 16 to 1024 is wanted"),
    ],
)
def test_its_settings_are_read_like_any_other(packages: Path, tmp_path: Path, table: str, words: str) -> None:
    (tmp_path / "headgate.toml").write_text(f"[toy]\n{table}\n")
    command = [sys.executable, "-m", "gateway", "config", "show", "--config", "headgate.toml"]
    environment = {**os.environ, "PYTHONPATH": paths(packages)}
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert words in result.stderr
    assert "headgate.toml" in result.stderr


def with_toy(*declarations: Declaration) -> Protocols:
    """The protocols of the tree, and others beside them."""
    return Protocols([*installed().declarations, *declarations], {})


def test_everything_that_is_known_of_protocols_follows_from_declarations() -> None:
    protocols = with_toy(PROTOCOL)
    assert protocols.ports["toy"] == 7_777
    assert protocols.recogniser.recognise(b"toy:") == "toy"
    assert protocols.recogniser.recognise(b"to") == ""
    assert protocols.recogniser.alpn["toy"] == ("toy",)
    assert protocols.words.reason_of("toy-shouting") is ErrorCode.NOT_ALLOWED
    assert protocols.labels(protocols.listeners["http"])["toy"] == "toy"
    config = load({}, {"HEADGATE_TOY_GREETING": "5"}, known(protocols))
    assert config.part(ToyConfig, "toy") == ToyConfig(greeting="5")
    assert "what a client that says hello is told" in page(known(protocols))


@pytest.mark.parametrize(
    "changed",
    [
        dataclasses.replace(PROTOCOL, name="mqtt"),
        dataclasses.replace(PROTOCOL, listeners=(Listener("coap", 1, ""),)),
        dataclasses.replace(PROTOCOL, words={"goaway": ErrorCode.RATE}),
    ],
)
def test_two_protocols_with_one_name_port_or_word_are_refused(changed: Declaration) -> None:
    with pytest.raises(ConfigError, match=r"two of the installed protocols|contradict"):
        with_toy(changed)
