"""Frames with the questions of a leader, and a follower's answers (decision 111). A replica of 44998bdc ignores both."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from domain.replication.message import LogHeld
from protocols.remoting.nodes.replication.dispatch import READERS
from tests.kept.exchanges.exchange import Exchange, Exchanges, request
from tests.kept.exchanges.replication import BYTES, LIFE, followed, held, log_bytes

QUESTIONS: Exchanges = {
    "log with a question": Exchange(partial(log_bytes, replace(BYTES, question=7)), followed),
    "sign of life with a question": Exchange(partial(log_bytes, replace(LIFE, question=8)), followed),
    "held with an answer": request(READERS, partial(held, LogHeld(5, 900, 800, True, 8))),
    "held with an answer, without room": request(READERS, partial(held, LogHeld(5, 900, 900, False, 9))),
}
