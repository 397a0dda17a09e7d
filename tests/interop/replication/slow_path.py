"""A proxy on loopback that delays what goes through it, both ways, without holding less back the more there is."""

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
    """

    def __init__(self, target: int) -> None:
        self.delay_s = 0.0
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
                self._carry(client, server)
                self._carry(server, client)

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        queue: SimpleQueue[tuple[float, bytes]] = SimpleQueue()

        def read() -> None:
            data = b"more"
            while data:
                try:
                    data = source.recv(65_536)
                except OSError:
                    data = b""
                queue.put((time.monotonic() + self.delay_s, data))

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
