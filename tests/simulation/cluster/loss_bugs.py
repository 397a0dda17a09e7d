"""Known bugs of clusters with strangers and of promotions: `losses.py` and `promotions.py` find them when they are put back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from controller.groups import recovery, registration
from domain.controller.group import StoreGroup
from gateway.cluster.replica import following_state, identity, replica
from store.replication import following, leading
from store.replication.replica_log import eras
from tests.simulation.cluster import losses, promotions
from tests.simulation.kit.bugs import Bugs, Patch

BUGS: Final = Bugs()


@BUGS.found_by(losses.run, 20, first=2, step=4)
def compares_numbers(patch: Patch) -> None:
    """Logs whose epochs have equal numbers are one history: a log of another cluster is cut, and followed on."""
    patch.setattr(leading, "parted_epoch", lambda ours, theirs: 0)
    patch.setattr(eras, "parted_epoch", lambda ours, theirs: 0)
    patch.setattr(leading, "is_inside", lambda found, position: False)
    patch.setattr(following, "is_another", lambda found, last: False)
    patch.setattr(following_state, "refusal_of", lambda group, own, log, is_learner: "")


@BUGS.found_by(losses.run, 12, first=2, step=4)
def registers_anywhere(patch: Patch) -> None:
    """A replica with the controllers of another cluster registers there, since the group has the same name."""
    patch.setattr(identity.ReplicaIdentity, "is_of_other", lambda self, known: False)
    patch.setattr(replica.ReplicaTerm, "_keep_identity", lambda self, group: None)
    own: Any = registration.register
    patch.setattr(registration, "register", lambda group, change: own(group, replace(change, identity="")))


@BUGS.found_by(losses.run, 12, step=4)
def founds_what_it_forgot(patch: Patch) -> None:
    """Controllers that came back empty let the replica lead that registers first."""
    patch.setattr(StoreGroup, "is_newer", lambda self, replica, epoch: False)


@BUGS.found_by(losses.run, 12, first=1, step=4)
def trusts_an_older_copy(patch: Patch) -> None:
    """Controllers with an older copy of their folders elect as if they knew the newest election."""
    patch.setattr(StoreGroup, "is_newer", lambda self, replica, epoch: not self.members and epoch > 0)


@BUGS.found_by(losses.run_older_set, 4)
def trusts_an_older_set(patch: Patch) -> None:
    """Controllers with an older copy of their folders elect by an older SyncStateSet: who was left out since may lead."""
    patch.setattr(StoreGroup, "is_older_than", lambda self, seen: False)


@BUGS.found_by(losses.run, 20, first=3, step=4)
def copies_are_one_replica(patch: Patch) -> None:
    """A process in a copy of a directory counts as a restart of the original."""
    own: Any = registration.register
    patch.setattr(registration, "register", lambda group, change: own(group, replace(change, run="", runs_before=())))


@BUGS.found_by(promotions.run, 6)
def promotes_beside_a_member(patch: Patch) -> None:
    """A learner that lacks records is promoted while a member that has them all is there."""
    patch.setattr(recovery, "electorate", lambda group, live: [])


@BUGS.found_by(promotions.run, 4)
def promotes_in_the_same_epoch(patch: Patch) -> None:
    """A learner that is promoted leads in the epoch of the leader whose records it lacks."""
    own: Any = recovery._alone

    def alone(group: StoreGroup, replica: int, live: Any) -> Any:
        ruling = own(group, replica, live)
        return ruling._replace(group=replace(ruling.group, leader_epoch=group.newest_led))

    patch.setattr(recovery, "_alone", alone)
