"""A remoting server that answers each request with what a function returns."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from types import TracebackType

from protocols.remoting.wire.frame import Frame, FrameDecoder, encode
from protocols.remoting.wire.header import FLAG_RESPONSE

Answer = tuple[int, Mapping[str, str], bytes]
"""(response code, ext fields, body)."""


class ScriptedServer:
    """Serves on a free port while it is entered. `seen`: the requests so far, (code, fields, body)."""

    def __init__(self, answer: Callable[[int, Mapping[str, str], bytes], Answer]) -> None:
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.seen: list[tuple[int, dict[str, str], bytes]] = []

    def __enter__(self) -> ScriptedServer:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        decoder = FrameDecoder()
        with client:
            while data := client.recv(1 << 16):
                client.sendall(b"".join(map(self._reply, decoder.feed(data))))

    def _reply(self, frame: Frame) -> bytes:
        fields = frame.fields() or {}
        self.seen.append((frame.code, fields, frame.body))
        code, told, body = self._answer(frame.code, fields, frame.body)
        return encode(code, frame.opaque, fields=told, body=body, flag=FLAG_RESPONSE)
