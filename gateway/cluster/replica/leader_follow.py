"""Following of the leader of a store group: one leader at a time, with reconnects."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, final

from domain.address import endpoint_of
from domain.controller.group import StoreGroup
from domain.ports import Clock, Entropy
from domain.replication.ports import FollowerLog
from gateway.cluster.replica.leader_link import LeaderLink
from gateway.cluster.replica.registration import ReplicaPlace
from gateway.link.request import Sign
from gateway.link.wire import Dialer
from store.replication.following import Following

log: Final = logging.getLogger("headgate.replica")


@final
class LeaderFollow:
    """The leader that a replica follows, if any.

    replica     id of the current or last leader; 0: none
    address     `host:port` of that leader; "": none
    following   follower state machine; None: no leader is followed
    """

    def __init__(
        self, place: ReplicaPlace, dialer: Dialer, sign: Sign | None, clock: Clock, entropy: Entropy, broke: Callable[[], None]
    ) -> None:
        """`broke`: called when a connection has ended or could not be made."""
        self.replica = 0
        self.address = ""
        self._place = place
        self._dialer = dialer
        self._sign = sign
        self._clock = clock
        self._entropy = entropy
        self._broke = broke
        self._epoch = 0
        self._link: LeaderLink | None = None
        self.following: Following | None = None

    @property
    def any(self) -> bool:
        """True while this replica follows a leader or tries to connect to it."""
        return self.following is not None

    @property
    def takes(self) -> bool:
        """True while the leader accepts this replica as a follower."""
        return self.following is not None and self.following.follows

    @property
    def refuses(self) -> str:
        """The reason why this version of the program cannot read the leader's log; "": it can, or follows no leader."""
        return "" if self.following is None else self.following.refuses

    @property
    def settled(self) -> bool:
        """True while no truncation of the log is in progress: the leader may change, or this replica be promoted."""
        return self.following is None or self.following.settled

    def follow(self, follower: FollowerLog, own: int, group: StoreGroup, anew: Callable[[int, bool], None]) -> bool:
        """Follow the leader of `group` with the log of replica `own`, instead of an earlier leader. Callback: as in Following.

        False: the leader is already followed in this epoch, it has no address, or a truncation of the log is in progress. The
        next report of the group by a controller tries again.
        """
        address = endpoint_of(group.address(group.leader))
        if address is None or (self._link is not None and group.leader_epoch == self._epoch) or not self.settled:
            return False
        self.end()
        self._epoch = group.leader_epoch
        self.replica, self.address = group.leader, group.address(group.leader)
        following = self.following = Following(
            follower, own, self._place.group, self._epoch, self._clock, anew, self._place.serves, self._place.identity.run
        )
        self._link = LeaderLink(
            address[0], address[1], self._dialer, self._clock, self._entropy, self._sign, following, self._broke
        )  # fmt: skip
        log.info("store group %s: replica %s leads in epoch %s", group.name, group.leader, group.leader_epoch)
        self._link.start()
        return True

    def end(self) -> None:
        """Stop following, and close the connection."""
        if self.following is not None:
            self.following.close()
        if self._link is not None:
            self._link.end()
        self.following = self._link = None
