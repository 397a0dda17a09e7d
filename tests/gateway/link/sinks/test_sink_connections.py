"""Connections to sinks whose answers are bytes that a test chooses: kept, closed, bounded, and never confused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from domain.subscription.courier import ANSWER_BYTES_MAX, SinkAnswer, SinkRequest, Trouble
from gateway.link.sinks.courier import HttpCourier
from gateway.link.sinks.sink_connection import HEAD_BYTES_MAX

EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"
Reply = Callable[[int, int], bytes | None]
"""(number of the connection, number of the request on it) -> what is written; None: the connection is closed at once."""


class Sink:
    """A server on loopback.

    heads   head of each request
    open    connections that are open now
    most    connections that were open at once
    closes  True: a connection is closed behind its answer
    """

    def __init__(self, reply: Reply, closes: bool = False, delay_s: float = 0.0) -> None:
        self.heads: list[bytes] = []
        self.made = self.open = self.most = 0
        self._reply = reply
        self._closes = closes
        self._delay_s = delay_s

    async def start(self) -> str:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/hook"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.made += 1
        self.open += 1
        self.most = max(self.most, self.open)
        connection, request = self.made, 0
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next((int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length")), 0)
                await reader.readexactly(length)
                request += 1
                self.heads.append(head)
                await asyncio.sleep(self._delay_s)
                answer = self._reply(connection, request)
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
                if self._closes:
                    break
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()


async def ask(courier: HttpCourier, url: str, timeout_ms: int = 5_000, value: str = "1") -> SinkAnswer:
    found: asyncio.Future[SinkAnswer] = asyncio.get_running_loop().create_future()
    courier.send(
        SinkRequest("POST", url, [("content-type", "text/plain"), ("x-one", value)], b"body", timeout_ms), found.set_result
    )
    return await found


def served(sink: Sink, scene: Callable[[HttpCourier, str], Awaitable[None]], connections_max: int = 100) -> None:
    async def run() -> None:
        courier = HttpCourier(["127.0.0.0/8"], "", connections_max)
        url = await sink.start()
        try:
            await scene(courier, url)
        finally:
            await courier.close()
            sink.server.close()
            await asyncio.sleep(0.01)

    asyncio.run(run())


def test_one_connection_takes_one_request_after_the_other() -> None:
    sink = Sink(lambda connection, request: EMPTY)

    async def scene(courier: HttpCourier, url: str) -> None:
        for _ in range(5):
            assert (await ask(courier, url)).status == 204

    served(sink, scene)
    assert (sink.made, len(sink.heads)) == (1, 5)
    head = sink.heads[0].decode()
    assert head.startswith("POST /hook HTTP/1.1\r\nhost: 127.0.0.1:")
    assert "\r\ncontent-length: 4\r\n\r\n" in head
    assert "\r\nx-one: 1\r\n" in head


def test_a_kept_connection_that_the_sink_has_closed_costs_no_delivery() -> None:
    sink = Sink(lambda connection, request: EMPTY if request == 1 else None)

    async def scene(courier: HttpCourier, url: str) -> None:
        for _ in range(3):
            assert (await ask(courier, url)).status == 204, "the second request of a connection is sent again over a new one"

    served(sink, scene)
    assert sink.made == 3


def test_a_new_connection_that_breaks_is_told_and_not_tried_again() -> None:
    sink = Sink(lambda connection, request: None)

    async def scene(courier: HttpCourier, url: str) -> None:
        answer = await ask(courier, url)
        assert (answer.status, answer.trouble) == (0, Trouble.CONNECTION)
        assert answer.text

    served(sink, scene)
    assert len(sink.heads) == 1


@pytest.mark.parametrize("connections_max", [1, 3])
def test_connections_are_bounded_and_those_that_wait_get_one(connections_max: int) -> None:
    sink = Sink(lambda connection, request: EMPTY, closes=True, delay_s=0.01)

    async def scene(courier: HttpCourier, url: str) -> None:
        answers = await asyncio.gather(*(ask(courier, f"{url}/{at}") for at in range(12)))
        assert [each.status for each in answers] == [204] * 12

    served(sink, scene, connections_max)
    assert sink.most <= connections_max + 1, "one may be closed here and not yet there"


def test_an_idle_connection_makes_room_for_one_to_another_place() -> None:
    first, second = Sink(lambda connection, request: EMPTY), Sink(lambda connection, request: EMPTY)

    async def scene(courier: HttpCourier, url: str) -> None:
        other = await second.start()
        for _ in range(3):
            assert (await ask(courier, url)).status == 204
            assert (await ask(courier, other)).status == 204
        second.server.close()

    served(first, scene, connections_max=1)
    assert (first.made, second.made) == (3, 3)


def test_who_waits_for_a_connection_has_a_deadline_too() -> None:
    sink = Sink(lambda connection, request: EMPTY, delay_s=2)

    async def scene(courier: HttpCourier, url: str) -> None:
        answers = await asyncio.gather(ask(courier, url, 300), ask(courier, url, 300))
        assert [each.trouble for each in answers] == [Trouble.TIMEOUT] * 2

    served(sink, scene, connections_max=1)


def test_a_late_answer_is_not_that_of_the_next_request() -> None:
    sink = Sink(lambda connection, request: b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n%d" % connection, delay_s=0.2)

    async def scene(courier: HttpCourier, url: str) -> None:
        assert (await ask(courier, url, 100)).trouble is Trouble.TIMEOUT
        assert (await ask(courier, url)).body == b"2"

    served(sink, scene)


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", 200, b"ok"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + EMPTY, 204, b""),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 200, b"ok"),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", 200, b"ok"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n", 200, b"ok"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok and more", 200, b"ok"),
        (b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\ncontent-length: 0\r\n\r\n", 503, b""),
    ],
)
def test_forms_of_answers(answer: bytes, status: int, body: bytes) -> None:
    sink = Sink(lambda connection, request: answer)

    async def scene(courier: HttpCourier, url: str) -> None:
        for _ in range(3):
            found = await ask(courier, url)
            assert (found.status, found.body, found.trouble) == (status, body, None)
        if status == 503:
            assert ("retry-after", "7") in found.fields
        assert not any(name == "link" for name, _ in found.fields)

    served(sink, scene)


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    sink = Sink(lambda connection, request: b"HTTP/1.1 200 OK\r\n\r\nall of it", closes=True)

    async def scene(courier: HttpCourier, url: str) -> None:
        assert (await ask(courier, url)).body == b"all of it"

    served(sink, scene)


@pytest.mark.parametrize(
    "answer",
    [
        b"hello\r\n\r\n", b"HTTP/1.1 200\x00\r\n\r\n", b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: %s\r\n" % (b"y" * 4_000) * (HEAD_BYTES_MAX // 4_000 + 2),
    ],
)  # fmt: skip
def test_what_is_no_whole_answer(answer: bytes) -> None:
    sink = Sink(lambda connection, request: answer, closes=True)

    async def scene(courier: HttpCourier, url: str) -> None:
        found = await ask(courier, url)
        assert (found.status, found.trouble) == (0, Trouble.CONNECTION)

    served(sink, scene)


def test_a_long_answer_is_cut_and_its_connection_is_not_used_again() -> None:
    length = ANSWER_BYTES_MAX * 3
    sink = Sink(lambda connection, request: b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % length + b"x" * length)

    async def scene(courier: HttpCourier, url: str) -> None:
        for _ in range(2):
            assert len((await ask(courier, url)).body) == ANSWER_BYTES_MAX

    served(sink, scene)
    assert sink.made == 2


@pytest.mark.parametrize("value", ["a\r\nx-two: 2", "a\nb", "a\rb", "a\0b"])
def test_a_value_that_would_be_another_field_is_not_sent(value: str) -> None:
    sink = Sink(lambda connection, request: EMPTY)

    async def scene(courier: HttpCourier, url: str) -> None:
        answer = await ask(courier, url, value=value)
        assert (answer.trouble, sink.heads) == (Trouble.CONNECTION, [])
        assert "x-one" in answer.text

    served(sink, scene)
