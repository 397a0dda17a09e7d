"""The composition of a replica that follows: what serves readers at its port `remoting` until it leads."""

from __future__ import annotations

from domain.errors import ErrorCode
from domain.replication.reads import FollowerReads
from gateway.access.authority import Access
from gateway.access.records import AccessRecords
from gateway.cluster.replica.replica import ReplicaTerm
from gateway.cluster.replica.settings import ReplicationSettings
from gateway.node.client_side import ClientPlace, ClientSide, ClientUsers, CommandPath, access_of, gate_before, make_client_side
from gateway.usecase.allowed_commands import AllowedCommands
from gateway.usecase.follower.presence import Presence
from gateway.usecase.follower.reading import FollowerReading
from gateway.usecase.tools.node_policy import FollowerPolicy
from gateway.usecase.tools.replication import Replicas
from gateway.usecase.topics_and_groups.policy import NodePolicy
from gateway.usecase.topics_and_groups.rights import Rights
from gateway.usecase.topics_and_groups.topics import Topics
from gateway.usecase.waiting.long_questions import LongQuestions
from protocols.remoting.nodes.forwarding.greeting import Elsewhere, encode

REFUSED = "this replica follows, and serves reads alone: ask the leader"
MIB = 1024 * 1024


def compose_follower(
    place: ClientPlace, reads: FollowerReads, replica: ReplicaTerm
) -> tuple[ClientSide, FollowerReading, Presence]:
    """What serves readers over `reads`, with the users and policies that are in them; what reads, for its counters; what gets
    heartbeats.

    Raises ConfigError.
    """
    config, clock = place.config, place.clock
    policy = config.part(NodePolicy, "policy")
    records = AccessRecords(reads.state, access_of(config).grants)
    access = Access(records, access_of(config), clock.wall_ms, config.cluster) if config.controlled else None
    topics = Topics(reads.metadata, clock, policy, LongQuestions(clock))
    near_bytes = config.part(ReplicationSettings, "replication").offload_mib * MIB // 2
    reading = FollowerReading(
        reads.log, lambda: int(reads.figures()["log_end"]), topics, Rights(reads.metadata, reads.state, policy), clock,
        lambda: replica.own, near_bytes, reads.metadata.group,
    )  # fmt: skip

    def figures() -> dict[str, float]:
        return {**reads.figures(), "got_total": reading.served, "elsewhere_total": reading.elsewhere}

    def elsewhere() -> bytes:
        return encode(Elsewhere(replica.leader_gates)) if replica.leader_gates else b""

    presence = Presence(clock.wall_ms(), figures, elsewhere)
    tools = Replicas(replica, reads.figures), FollowerPolicy(replica, reads.metadata)
    verbs = AllowedCommands(REFUSED, reading, presence, *tools, code=ErrorCode.STORE_UNAVAILABLE)
    gate = gate_before(verbs, access, clock)
    side = make_client_side(place, ClientSide, CommandPath(place, gate), ClientUsers(records, access))
    return side, reading, presence
