"""A courier whose requests wait until a test answers them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from domain.subscription.courier import SinkAnswer, SinkRequest, Trouble


class HeldCourier:
    """`domain.subscription.courier.Courier`. `sent`: all requests; `waiting`: what is to be told of those without an answer."""

    def __init__(self) -> None:
        self.sent: list[SinkRequest] = []
        self.waiting: list[Callable[[SinkAnswer], None]] = []

    def send(self, delivery: SinkRequest, done: Callable[[SinkAnswer], None]) -> Callable[[], None]:
        """As the port says."""
        self.sent.append(delivery)
        self.waiting.append(done)
        return lambda: self.waiting.remove(done)

    def answer(self, status: int, trouble: Trouble | None = None, fields: Sequence[tuple[str, str]] = ()) -> None:
        """Answer all that wait."""
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(SinkAnswer(status, fields, trouble=trouble))
