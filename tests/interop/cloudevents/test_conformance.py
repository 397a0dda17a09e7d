"""The conformance tool of the CloudEvents project: what it invokes a node with is what it receives from a webhook."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.cloudevents.receiving import Receiving
from tests.interop.node import Node
from tests.interop.webhooks.api import Api, hooked
from tests.interop.workshop import CLIENTS, go_program
from tests.patience import until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1200)]

EVENT = """\
Mode: {mode}
ContextAttributes:
  specversion: {version}
  type: com.example.conformance
  id: {identity}
  source: //example.com/conformance
  time: 2018-04-05T03:56:24Z
  subject: a/b
  datacontenttype: {kind}
Data: |
  {data}
"""
BINARY = (
    ("text/plain; charset=us-ascii", "Hello, World!"),
    ("text/plain; charset=utf-8", "Hello, 🌎!"),
    ("application/json; charset=utf-8", '"Hello, 🌎!"'),
    ("application/json; charset=utf-8", '{"msg":"Hello, 🌎!"}'),
    ("application/json; charset=utf-8", '["Hello","🌎!"]'),
    ("application/xml; charset=utf-8", "<msg>Hello, 🌎!</msg>"),
)
STRUCTURED = BINARY[2:5]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with hooked(tmp_path_factory.mktemp("conformance"), lines="[http]\ncloudevents_03 = true\n") as found:
        yield found


def events(mode: str, version: str) -> str:
    """Events of every content type as the tool reads them."""
    rows = STRUCTURED if mode == "structured" else BINARY
    return "---\n".join(
        EVENT.format(mode=mode, version=version, identity=f"{mode}-{at}", kind=kind, data=data)
        for at, (kind, data) in enumerate(rows)
    )


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_what_the_tool_sends_comes_out_as_an_event_of_1_0(node: Node, tmp_path: Path, mode: str, version: str) -> None:
    tool = str(go_program(CLIENTS / "go" / "conformance", "the conformance tool of CloudEvents"))
    given, wanted, got = tmp_path / "given.yaml", tmp_path / "wanted.yaml", tmp_path / "got.yaml"
    given.write_text(events(mode, version), "utf-8")
    wanted.write_text(events(mode, "1.0"), "utf-8")
    topic = f"{mode}-{version.replace('.', '')}"
    with Receiving([tool, "receive"]) as receiver:
        Api(node).subscribe(receiver.url, topic, payload=mode, verify=False)
        url = f"http://127.0.0.1:{node.port('http')}/ce/{topic}"
        done = subprocess.run([tool, "invoke", url, "-f", str(given)], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        number = len(STRUCTURED if mode == "structured" else BINARY)
        until(lambda: receiver.lines.count("---") >= number, 90, lambda: "\n".join(receiver.lines))
        got.write_text("\n".join(receiver.lines).removesuffix("---"), "utf-8")
    assert compared(tool, wanted, got) == ""
    given.write_text(events(mode, "1.0").replace("subject: a/b", "subject: other"), "utf-8")
    assert "subject" in compared(tool, given, got), "the tool sees a difference"


def compared(tool: str, wanted: Path, got: Path) -> str:
    """What the tool finds different; "" for nothing."""
    done = subprocess.run([tool, "diff", str(wanted), str(got)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode == 0) == (done.stdout == ""), done.stderr
    return done.stdout


def test_the_tool_is_told_what_is_no_event(node: Node) -> None:
    tool = str(go_program(CLIENTS / "go" / "conformance", "the conformance tool of CloudEvents"))
    url = f"http://127.0.0.1:{node.port('http')}/ce/told"
    asked = [tool, "send", url, "--type", "t", "--source", "/s"]
    good = subprocess.run([*asked, "--id", "1"], capture_output=True, text=True, timeout=60, check=False)
    assert good.returncode == 0, good.stderr
    bad = subprocess.run([*asked, "--id", " "], capture_output=True, text=True, timeout=60, check=False)
    assert bad.returncode != 0
    assert "400" in bad.stderr
