"""The shared subscriptions of one SUBSCRIBE: a session becomes a member of their groups, a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, final

from domain.client.mqtt_session import MqttSubscription
from domain.errors import Failure
from gateway.usecase.sessions.mqtt_session import MqttSession
from gateway.usecase.sessions.shared.shared_subscriptions import SharedSubscriptions
from gateway.usecase.sessions.subscription_limits import refusal

UNDER_WAY_MAX: Final = 4
"""Shared subscriptions of one SUBSCRIBE that are prepared at a time: each creates a group and its positions in the log."""


@final
class SharedJoins:
    """The joins of one SUBSCRIBE.

    _outcomes   of all subscriptions of the SUBSCRIBE, of which the joins set theirs
    _decided    called when the last one is decided
    _begun      joins that are decided or under way
    _ended      joins that are decided
    """

    def __init__(
        self,
        session: MqttSession,
        shared: SharedSubscriptions,
        joining: Sequence[tuple[int, MqttSubscription]],
        outcomes: list[Failure | None],
        decided: Callable[[], None],
    ) -> None:
        """`joining`: (number in `outcomes`, subscription)."""
        self._session = session
        self._epoch = session.epoch
        self._shared = shared
        self._joining = joining
        self._outcomes = outcomes
        self._decided = decided
        self._begun = self._ended = 0

    def steps(self) -> Iterator[None]:
        """Begin one join after the other; yields after each, and while UNDER_WAY_MAX are under way."""
        for at, subscription in self._joining:
            while self._begun - self._ended >= UNDER_WAY_MAX:
                yield
            self._begun += 1
            refused = refusal(self._session, subscription, ())  # others may have been added since
            if refused is None:
                self._shared.prepare(subscription, partial(self._end, at, subscription))
            else:
                self._end(at, subscription, refused)
            yield

    def _end(self, at: int, subscription: MqttSubscription, failure: None | Failure) -> None:
        self._ended += 1
        self._outcomes[at] = failure
        if failure is None and self._session.epoch == self._epoch:
            old = self._session.shared_subscriptions.get(subscription.name)
            self._session.shared_subscriptions[subscription.name] = subscription
            if self._session.durable:
                self._session.records.subscribed(old, subscription)
            self._shared.join(self._session, subscription)
        if self._ended == len(self._joining):
            self._decided()
