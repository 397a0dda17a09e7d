"""Registration of a following replica at name servers: as a slave of its broker, at the address where it serves readers."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, final

from domain.errors import ConfigError
from domain.nameserver.route import Registration
from domain.ports import Clock, Entropy
from gateway.cluster.registration.registering import connected
from gateway.cluster.registration.registration import NodeRegistration
from gateway.cluster.registration.settings import RegistrationSettings
from gateway.node.settings import Config
from nameserver.leaders_topics import LeadersTopics

log: Final = logging.getLogger("headgate.replica")


@final
class SlaveRegistration:
    """Registers the replica while it follows: from its first leader until its promotion, or the end of its term.

    _own      number under which it is registered; 0: it is not
    _ending   registrations that are being ended, each for a second at most
    """

    def __init__(self, config: Config, serves: str, ha_address: str, clock: Clock, entropy: Entropy) -> None:
        """`serves`: host:port of the port `readers`, "" when it is closed: the replica is not registered then."""
        self._config = config
        self._settings = config.part(RegistrationSettings, "registration")
        self._serves = serves
        self._ha_address = ha_address
        self._clock = clock
        self._entropy = entropy
        self._own = 0
        self._topics = LeadersTopics(0)
        self._registration: NodeRegistration | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def follows(self, own: int, epoch: int) -> None:
        """Register as replica `own`, a follower of the leader of `epoch`."""
        if not self._serves or not self._settings.nameservers:
            return
        if self._registration is None or own != self._own:
            self.end()
            self._own = own
            config = self._config
            broker = Registration(config.cluster, config.broker, own, self._serves, self._ha_address)
            self._topics = LeadersTopics(self._clock.wall_ms())
            try:
                self._registration = connected(self._settings, broker, self._topics, self._clock, self._entropy)
            except ConfigError as error:  # a key that cannot be read now: a node that leads fails because of it
                log.warning("this replica is not registered as a slave: %s", error)
                return
            self._registration.start()
        self._topics.epoch = epoch
        self._registration.topics_changed()

    def end(self) -> None:
        """Unregister at the name servers without a wait, since the replica does not follow any more."""
        registration, self._registration = self._registration, None
        if registration is not None:
            registration.leave()
            task = asyncio.get_running_loop().create_task(registration.close())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Unregister, and wait for the name servers for one second at most."""
        self.end()
        if self._ending:
            await asyncio.wait(self._ending)

    def counts(self) -> tuple[int, int]:
        """(name servers, those that have this replica as a slave)."""
        return (0, 0) if self._registration is None else self._registration.counts()
