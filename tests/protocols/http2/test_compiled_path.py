"""What an event passes is compiled: an interpreted module works as well, and costs half of the time without a word."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from domain.command import Send
from gateway.runtime.compiled import ROOT
from protocols.http.connection import HttpConnection
from protocols.http2.application import ApplicationFactory
from protocols.http2.connection import Http2Connection
from protocols.websocket.adapter import WebSocketAdapter
from protocols.websocket.settings import WebSocketSettings
from tests.protocols.http.stage import EVENT, PEER, adapter, factory, sent
from tests.protocols.http2.peer import ENGINES, Client
from tests.protocols.taken import last, only

FIELDS = [(b"ce-specversion", b"1.0"), (b"ce-id", b"1"), (b"ce-source", b"/s"), (b"ce-type", b"t")]
WITHOUT_A_COMPILER = "protocols/http2/engine_h2.py"


def compiled_modules() -> set[str]:
    """Paths of the modules that setup.py compiles."""
    for node in ast.parse((ROOT / "setup.py").read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "FOLDERS":
            folders: dict[str, tuple[str, ...]] = ast.literal_eval(node.value)
            return {f"{folder}/{name}.py" for folder, names in folders.items() for name in names}
    raise AssertionError("setup.py has no FOLDERS")


def passed(run: Callable[[], object]) -> set[str]:
    """Paths of the node's modules with functions that are interpreted in `run`; all of them in a tree that is not compiled."""
    found: set[str] = set()

    def heed(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(f"{ROOT}/"):
            found.add(str(Path(frame.f_code.co_filename).relative_to(ROOT)))

    before = sys.getprofile()
    sys.setprofile(heed)
    try:
        run()
    finally:
        sys.setprofile(before)
    return {path for path in found if path.startswith(("domain/", "gateway/", "protocols/"))}


def test_what_an_event_passes_on_http2_is_compiled() -> None:
    factories: list[ApplicationFactory] = [WebSocketAdapter({}, WebSocketSettings()), factory()]
    client = Client(Http2Connection(list(ENGINES.values())[-1], factories, PEER, 0))

    def post() -> None:
        stream = client.request("/ce/orders", b"x", FIELDS)
        command = last(client.commands, Send)
        client.server.answer(sent(command), 0)
        client.server.deadline()
        client.exchange()
        assert client.status(stream) == b"204"

    post()
    assert passed(post) - compiled_modules() <= {WITHOUT_A_COMPILER}


def test_what_an_event_passes_on_http1_is_compiled() -> None:
    connection = adapter().connect(PEER, 0)
    assert isinstance(connection, HttpConnection)

    def post() -> None:
        command = only(connection.receive(EVENT, 0), Send)
        connection.answer(sent(command), 0)
        connection.deadline()
        assert b"".join(connection.outgoing()).startswith(b"HTTP/1.1 204 ")

    post()
    assert passed(post) - compiled_modules() == set()
