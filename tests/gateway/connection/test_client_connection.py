"""A client connection: it answers while it is open, and ends once."""

from __future__ import annotations

from functools import partial

from domain.errors import ErrorCode, Failure
from domain.event import Done
from gateway.connection.client_connection import CLOSED_DRIVER, ClientConnection
from tests.connection_driver import RecordingDriver


def test_answers_are_given_while_the_connection_is_open() -> None:
    driver = RecordingDriver()
    connection = ClientConnection("mqtt", driver)
    connection.answer(Done(1))
    connection.end()
    connection.answer(Done(2))
    assert driver.recorded == [Done(1)]


def test_the_end_undoes_everything_once_and_in_order() -> None:
    connection, undone = ClientConnection("mqtt", RecordingDriver()), list[str]()
    for name in ("poll", "watch"):
        connection.on_close.append(partial(undone.append, name))
    connection.end()
    connection.end()
    assert undone == ["poll", "watch"]
    assert connection.on_close == []


def test_what_is_undone_finds_the_connection_closed() -> None:
    driver, seen = RecordingDriver(), list[bool]()
    connection = ClientConnection("mqtt", driver)

    def undo() -> None:
        seen.append(connection.closed)
        connection.answer(Done(1))
        connection.end()

    connection.on_close.append(undo)
    connection.end()
    assert (seen, driver.recorded) == ([True], [])


def test_an_ended_connection_keeps_no_reference_to_its_driver() -> None:
    connection = ClientConnection("mqtt", RecordingDriver())
    connection.on_writable = lambda: None
    connection.end()
    assert connection.driver is CLOSED_DRIVER
    assert connection.on_writable is None
    connection.driver.answer(Done(1))
    connection.driver.throttle(5)
    connection.driver.revoke_access(Failure(ErrorCode.NOT_AUTHENTICATED, "the password was changed"))
    connection.driver.close()


def test_who_waits_for_a_stalled_peer_is_called_when_it_reads_again() -> None:
    connection, called = ClientConnection("mqtt", RecordingDriver()), list[bool]()
    connection.became_writable()
    connection.stalled = True
    connection.on_writable = lambda: called.append(connection.stalled)
    connection.became_writable()
    assert called == [False]
    connection.end()
    connection.became_writable()
    assert called == [False]
