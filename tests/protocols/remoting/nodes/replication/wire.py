"""A connection to the port of a replica, in memory, and strategies for what goes over it."""

from __future__ import annotations

from hypothesis import strategies as st

from domain.replication.message import (
    Era,
    Follow,
    FollowAccepted,
    FollowRefusal,
    FollowRefused,
    LogBytes,
    LogHeld,
)
from gateway.node.settings_tables import read
from protocols.remoting.adapter import RemotingAdapter
from protocols.remoting.connection import RemotingConnection
from protocols.remoting.nodes.replication.dialog import FollowDialog
from protocols.remoting.settings import RemotingSettings
from protocols.setting import Setting
from tests.protocols.remoting.frames import PEER
from tests.simulation.kit.entropy import SeededEntropy

LARGEST = (1 << 63) - 1
POSITIONS = st.integers(0, LARGEST)
FOLLOW = Follow(None, "broker-a", 2, 77, 5, (Era(3, 0), Era(5, 700)), 0, 900)


def leader() -> RemotingConnection:
    """The leader's end of a connection."""
    setting = Setting(
        "c1", "b-a", "10.0.0.1", {"replication": 10912}, SeededEntropy(1), lambda: 1_700_000_000_000, is_replica=True
    )
    return RemotingAdapter(setting, read(RemotingSettings, "remoting", {}, {})).connect(PEER, 0)


def asked(conn: RemotingConnection, dialog: FollowDialog, follow: Follow = FOLLOW) -> Follow:
    """A Follow of the dialog, as the leader has it."""
    (command,) = conn.receive(dialog.follow(follow), 1)
    assert isinstance(command, Follow)
    return command


def followed() -> tuple[RemotingConnection, FollowDialog]:
    """Both ends of a connection on which the leader has accepted the follower."""
    conn, dialog = leader(), FollowDialog()
    conn.answer(FollowAccepted(asked(conn, dialog).ticket, 5, 900, 0), 1)
    dialog.receive(b"".join(conn.outgoing()))
    return conn, dialog


@st.composite
def follows(draw: st.DrawFn) -> Follow:
    """Any Follow."""
    first, end = sorted((draw(POSITIONS), draw(POSITIONS)))
    epochs = sorted(draw(st.sets(POSITIONS, max_size=8)))
    begins = sorted(draw(st.lists(st.integers(0, end), min_size=len(epochs), max_size=len(epochs))))
    eras = tuple(map(Era, epochs, begins))
    ids = st.integers(1, LARGEST)
    return Follow(
        None,
        draw(st.text("abcxyz-_0123", min_size=1)),
        draw(ids),
        draw(ids),
        draw(POSITIONS),
        eras,
        first,
        end,
        draw(st.sampled_from(["", "10.0.0.2:10913", "[::1]:9"])),
    )


ACCEPTED = st.builds(
    FollowAccepted, st.none(), POSITIONS, st.integers(-1, LARGEST), POSITIONS,
    gates=st.sampled_from(["", "10.0.0.2:10911", "[::1]:9"]),
)  # fmt: skip
REFUSED = st.builds(FollowRefused, st.none(), st.sampled_from(FollowRefusal), POSITIONS)
QUESTIONS = st.one_of(st.just(0), st.integers(1, 10**18 - 1))
BYTES = st.builds(LogBytes, st.none(), POSITIONS, POSITIONS, POSITIONS, POSITIONS, st.binary(max_size=300), QUESTIONS)


@st.composite
def helds(draw: st.DrawFn) -> LogHeld:
    """Any LogHeld."""
    synced, written = sorted((draw(POSITIONS), draw(POSITIONS)))
    return LogHeld(draw(POSITIONS), written, synced, draw(st.booleans()), draw(QUESTIONS))
