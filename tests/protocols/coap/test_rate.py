"""The rate of one peer: 4.29 with Max-Age (RFC 8516), then silence; others are not concerned."""

from __future__ import annotations

from protocols.coap.message import message, option
from tests.protocols.coap.stage import Stage, peer, values


def test_a_peer_above_its_rate_is_told_and_then_not_answered() -> None:
    stage = Stage(requests_peer_per_s=10)
    answers = [stage.request(message.POST, "mq/t", b"x") for _ in range(30)]
    assert [message.name(packet.code) for each in answers for packet in each] == ["2.01"] * 10 + ["4.29"]
    [told] = answers[10]
    assert values(told, option.MAX_AGE) == [b"\x02"]
    assert len(stage.log) == 10
    counts = stage.endpoint.counts
    assert (counts["4.29"], counts["peer-rate"]) == (1, 19)
    assert stage.endpoint.replier.executing == 0


def test_another_port_has_its_own_rate_and_time_gives_room() -> None:
    stage = Stage(requests_peer_per_s=10)
    for _ in range(20):
        stage.request(message.POST, "mq/t", b"x")
    assert stage.request(message.POST, "mq/t", b"x", source=peer(5))[0].code == message.CREATED
    stage.advance(0.5)
    stored = len(stage.log)
    for _ in range(20):
        stage.request(message.POST, "mq/t", b"x")
    assert len(stage.log) == stored + 5


def test_a_refused_request_is_executed_when_it_comes_again_in_time() -> None:
    stage = Stage(requests_peer_per_s=1)
    stage.request(message.POST, "mq/t", b"1", mid=1)
    assert stage.request(message.POST, "mq/t", b"2", mid=2)[0].code == message.TOO_MANY_REQUESTS
    stage.advance(2)
    assert stage.request(message.POST, "mq/t", b"2", mid=2)[0].code == message.CREATED
    assert len(stage.log) == 2


def test_without_a_rate_nobody_is_refused() -> None:
    stage = Stage(requests_peer_per_s=0)
    for _ in range(200):
        assert stage.request(message.POST, "mq/t", b"x")[0].code == message.CREATED


def test_requests_without_confirmation_are_dropped_silently() -> None:
    stage = Stage(requests_peer_per_s=1)
    stage.request(message.POST, "mq/t", b"x", kind=message.NON)
    assert stage.request(message.POST, "mq/t", b"x", kind=message.NON) == []
    assert stage.endpoint.counts["peer-rate"] == 1
