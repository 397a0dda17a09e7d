"""A TCP proxy on loopback that a test can make deaf, slow or dead, one way or both."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections import deque
from typing import Final

CHUNK_BYTES: Final = 256 * 1024
HELD_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of one direction that wait; beyond that nothing is read, as by a network whose buffers are full."""
_TURN_S: Final = 0.02
TO, FROM = 0, 1
"""Directions: to the target, and from it."""


class _Flow:
    """One direction of one connection: bytes wait here for their time, and for the end of a partition.

    said   what the client has said first, of both directions
    """

    def __init__(self, source: socket.socket, target: socket.socket, way: int, said: bytearray) -> None:
        self.said = said
        self.source, self.target, self.way = source, target, way
        self.waiting: deque[tuple[float, bytes]] = deque()
        self.held = 0
        self.ended = False


class LoopbackProxy:
    """Listens at a port of its own, any free one for 0, and passes connections on to `target`.

    port       the one that it listens at
    blocked    directions in which nothing passes; connections stay, and what was sent comes when they are open again
    delay_s    how long bytes take, each way
    marked_by  what clients say first over the connections that are delayed; b"": all are
    fault      what has ended the proxy
    """

    def __init__(self, port: int, target: int) -> None:
        self.blocked: set[int] = set()
        self.delay_s = 0.0
        self.marked_by = b""
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._listener.setblocking(False)
        self._flows: list[_Flow] = []
        self._resets = False
        self._closed = False
        self.fault: BaseException | None = None
        self._thread = threading.Thread(target=self._guarded, daemon=True)
        self._thread.start()

    def reset(self) -> None:
        """Break all connections there are."""
        self._resets = True

    def heal(self) -> None:
        """Everything passes."""
        self.blocked = set()
        self.delay_s = 0.0

    def close(self) -> None:
        """End."""
        self._closed = True
        self._thread.join(10)
        self._listener.close()

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.fault = error
            raise

    def _run(self) -> None:
        selector = selectors.DefaultSelector()
        selector.register(self._listener, selectors.EVENT_READ)
        while not self._closed:
            ready = {key.fileobj for key, _ in selector.select(_TURN_S)}
            if self._resets:
                self._resets = False
                for flow in list(self._flows):
                    self._end(selector, flow)
            if self._listener in ready:
                self._accept(selector)
            now = time.monotonic()
            for flow in list(self._flows):
                if flow.source in ready and flow in self._flows:
                    self._read(selector, flow, now)
                if flow in self._flows:
                    self._write(selector, flow, now)
        for flow in list(self._flows):
            self._end(selector, flow)
        selector.close()

    def _accept(self, selector: selectors.BaseSelector) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return
        try:
            server = socket.create_connection(("127.0.0.1", self._target), 1)
        except OSError:
            client.close()
            return
        for each in (client, server):
            each.setblocking(False)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(each, selectors.EVENT_READ)
        said = bytearray()
        self._flows += [_Flow(client, server, TO, said), _Flow(server, client, FROM, said)]

    def _read(self, selector: selectors.BaseSelector, flow: _Flow, now: float) -> None:
        if flow.held >= HELD_BYTES_MAX or flow.ended:
            time.sleep(0.001)
            return
        try:
            data = flow.source.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            flow.ended = True
            selector.unregister(flow.source)
        if flow.way == TO and not flow.said:
            flow.said += data
        flow.held += len(data)
        flow.waiting.append((now + (self.delay_s if self.marked_by in flow.said else 0.0), data))

    def _write(self, selector: selectors.BaseSelector, flow: _Flow, now: float) -> None:
        while flow.waiting and flow.way not in self.blocked and flow.waiting[0][0] <= now:
            due, data = flow.waiting.popleft()
            if not data:
                self._end(selector, flow)
                return
            try:
                sent = flow.target.send(data)
            except BlockingIOError:
                sent = 0
            except OSError:
                self._end(selector, flow)
                return
            flow.held -= sent
            if sent < len(data):
                flow.waiting.appendleft((due, data[sent:]))
                return

    def _end(self, selector: selectors.BaseSelector, flow: _Flow) -> None:
        """Both directions end."""
        if flow not in self._flows:
            return
        pair = [each for each in self._flows if each.source in (flow.source, flow.target)]
        self._flows = [each for each in self._flows if each not in pair]
        for each in (flow.source, flow.target):
            with contextlib.suppress(KeyError):
                selector.unregister(each)
            each.close()
