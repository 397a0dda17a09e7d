"""The report of a replica about itself in a heartbeat, which goes as one record to the page of `headgate cluster status`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from domain.controller.group import ReplicaReport
from domain.controller.health import ReplicaFigures
from domain.controller.left_out import LeftOut
from domain.controller.remote import LOCAL, RemoteWord
from domain.controller.serving import UNSAID, ServingWord
from domain.set_aside import NOTHING, KeptAside


class ReplicaWord(NamedTuple):
    """The words of one heartbeat. A default stands for what the replica does not say, as versions before it do not.

    report     its log, and what it is in the group
    figures    what it has measured since its last heartbeat; None: it does not measure
    run        random text of its process
    refuses    why it does not follow the leader, for people; "": it does, or tries to
    identity   identity of the store group in its data directory; "": it has none, or does not say
    aside      what its data directory keeps that was set aside
    parted     id of the leader that has ended its connection to this follower, until it follows again; 0: none has
    remote     LOCAL, or where it is and what it lacks
    left_out   of a leader: the replicas that are not in sync, with what they lack
    serving    whether it serves clients as the leader; UNSAID: it does not say
    """

    report: ReplicaReport
    figures: ReplicaFigures | None = None
    run: str = ""
    refuses: str = ""
    identity: str = ""
    aside: KeptAside = NOTHING
    parted: int = 0
    remote: RemoteWord = LOCAL
    left_out: Sequence[LeftOut] = ()
    serving: ServingWord = UNSAID
