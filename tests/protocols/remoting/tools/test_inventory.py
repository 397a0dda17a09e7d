"""Positions and request modes of all groups, corrections, waiting receives, cold reads."""

from __future__ import annotations

import json

from domain.admin.group import CountWaitingMessages, ListRequestModes, RequestModeList, WaitingCount
from domain.admin.position import Backlog, QueryBacklog
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from protocols.remoting import codes
from protocols.remoting.tools.inventory import NO_CORRECTION
from tests.protocols.remoting.frames import exchanged, fields, refused_reply

GROUPS = {"g": [("T", 0, 9, 5), ("T", 1, 9, 3)], "h": [("T", 0, 9, 7), ("U", 0, 2, 2)], "o": [("T", 0, 9, 1)]}


def test_all_positions() -> None:
    answer = exchanged(codes.GET_ALL_OFFSETS, {}, QueryBacklog, Backlog(None, GROUPS))
    table = json.loads(answer.body)["offsetTable"]
    assert table == {"T@g": {"0": 5, "1": 3}, "T@h": {"0": 7}, "U@h": {"0": 2}, "T@o": {"0": 1}}
    failure = Failure(ErrorCode.NOT_ALLOWED, "not you")
    refused = exchanged(codes.GET_ALL_OFFSETS, {}, QueryBacklog, Refused(None, failure))
    assert (refused.code, refused.remark) == (codes.NO_PERMISSION, "not you")


def test_corrections_are_the_least_of_the_others() -> None:
    ext = {"topic": "T", "compareGroup": "h", "filterGroups": "o"}
    answer = exchanged(codes.QUERY_CORRECTION, ext, QueryBacklog, Backlog(None, GROUPS))
    assert json.loads(answer.body) == {"correctionOffsets": {"0": 5, "1": 3}}
    ext = {"topic": "T", "compareGroup": "o", "filterGroups": "o"}
    answer = exchanged(codes.QUERY_CORRECTION, ext, QueryBacklog, Backlog(None, GROUPS))
    assert json.loads(answer.body) == {"correctionOffsets": {"0": NO_CORRECTION, "1": 3}}


def test_modes() -> None:
    answer = exchanged(codes.GET_ALL_MODES, {}, ListRequestModes, RequestModeList(None, [("T", "g", "POP", 2)]))
    body = {"consumerGroup": "g", "mode": "POP", "popShareQueueNum": 2, "topic": "T"}
    assert json.loads(answer.body) == {"messageRequestModeMap": {"T": {"g": body}}}


def test_polls_that_wait() -> None:
    ext = {"consumerGroup": "g", "topic": "T", "queueId": "-1"}
    assert fields(exchanged(codes.POLLING_INFO, ext, CountWaitingMessages, WaitingCount(None, 3))) == {"pollingNum": "3"}


def test_cold_reads_are_not_throttled() -> None:
    assert json.loads(refused_reply(codes.GET_COLD_READS, {}).body)["runtimeTable"] == {}
