"""A proxy on loopback that delays what goes through it, both ways, without holding less back the more there is.

It delays all connections, or only those over which a client has said a certain word: one follower of several.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from queue import SimpleQueue
from types import TracebackType


class SlowPath:
    """A port before another one of this machine.

    port       where it listens
    delay_s    how long each byte takes, from now on
    marked_by  what clients say first over the connections that are delayed; b"": all are
    """

    def __init__(self, target: int) -> None:
        self.delay_s = 0.0
        self.marked_by = b""
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listener]
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> SlowPath:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._target), 5)
                except OSError:
                    client.close()
                    continue
                self._sockets += [client, server]
                said: list[bytes] = []
                self._carry(client, server, said, True)
                self._carry(server, client, said, False)

    def _carry(self, source: socket.socket, target: socket.socket, said: list[bytes], asks: bool) -> None:
        """`said`: what the client has said first; `asks`: the source is the client."""
        queue: SimpleQueue[tuple[float, bytes]] = SimpleQueue()

        def read() -> None:
            data = b"more"
            while data:
                try:
                    data = source.recv(65_536)
                except OSError:
                    data = b""
                if asks and not said:
                    said.append(data)
                delayed = not self.marked_by or any(self.marked_by in each for each in said)
                queue.put((time.monotonic() + (self.delay_s if delayed else 0.0), data))

        def write() -> None:
            while True:
                due, data = queue.get()
                time.sleep(max(0.0, due - time.monotonic()))
                try:
                    if not data:
                        target.shutdown(socket.SHUT_RDWR)
                        return
                    target.sendall(data)
                except OSError:
                    return

        for each in (read, write):
            threading.Thread(target=each, daemon=True).start()
