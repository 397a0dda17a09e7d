"""Notifications of one connection over TCP, TLS or WebSockets: those of its observers that have one to send, in turn."""

from __future__ import annotations

from collections import deque
from typing import Final, final

from protocols.coap.observe.observations import Observation, Observations
from protocols.coap.responses import Responses
from protocols.coap.stream.stream_replier import StreamReplier

NOTIFIED_BYTES: Final = 64 * 1024
"""Bytes of notifications encoded per turn."""


@final
class StreamNotifier:
    """Encodes the notifications of one connection.

    ready   observations with a notification to send
    """

    __slots__ = ("_observations", "_outcomes", "_replier", "ready")

    def __init__(self, replier: StreamReplier, outcomes: Responses, observations: Observations) -> None:
        self._replier = replier
        self._outcomes = outcomes
        self._observations = observations
        self.ready: deque[Observation] = deque()

    def notify(self, now: int) -> bool:
        """Encode notifications, one of each observer in turn; True when more are left for the next turn."""
        replier = self._replier
        before = replier.unwritten
        while self.ready and replier.unwritten - before < NOTIFIED_BYTES:
            observation = self.ready.popleft()
            found = observation.notification(now)
            if found is not None:
                replier.write(found[0], observation.token, found[1], found[2])
            if observation.refused and not observation.cancelled:
                self._outcomes.later.extend(self._outcomes.cancel(observation, now))
            elif not observation.cancelled:
                if observation.waiting:
                    self.ready.append(observation)
                else:
                    self._observations.settled(observation)
        return len(self.ready) > 0
