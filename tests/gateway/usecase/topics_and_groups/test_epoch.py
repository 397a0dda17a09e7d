"""A topic that is deleted and created again has another epoch; anything else leaves it as it is."""

from __future__ import annotations

from domain.admin.topic import Bounds, DeleteTopic, PutTopic, QueryBounds, QueryTopic
from domain.command import Pull
from domain.errors import ErrorCode
from domain.event import Pulled
from domain.topic.topic import Topic
from tests.gateway.usecase.bench import Bench, code
from tests.gateway.usecase.event_recorder import only


def epoch(bench: Bench, topic: str = "T") -> int:
    event = only(Bounds, bench.ask(QueryBounds(1, topic)))
    return event.epoch


def test_a_topic_made_anew_has_another_epoch_even_within_a_millisecond(bench: Bench) -> None:
    seen = []
    for _ in range(4):
        bench.ask(PutTopic(1, Topic("T")))
        seen.append(epoch(bench))
        bench.ask(DeleteTopic(2, "T"))
    assert seen == sorted(set(seen))
    assert min(seen) > 0


def test_a_topic_keeps_its_epoch_when_it_is_changed(bench: Bench) -> None:
    bench.ask(PutTopic(1, Topic("T", 4, 4)))
    before = epoch(bench)
    bench.ask(PutTopic(1, Topic("T", 8, 8)))
    assert epoch(bench) == before


def test_topics_that_are_made_on_first_use_have_epochs(bench: Bench) -> None:
    bench.ask(QueryTopic(1, "U", create=True))
    assert epoch(bench, "U") > 0


def test_a_pull_of_a_deleted_topic_does_not_get_messages_of_the_new_one(bench: Bench) -> None:
    bench.furnish(4, 3)
    now = epoch(bench)
    found = only(Pulled, bench.ask(Pull(1, "g", "T", 0, 0, 8, 65_536, epoch=now)))
    assert len(found.records) == 4
    assert code(bench.ask(Pull(1, "g", "T", 0, 0, 8, 65_536, epoch=now - 1))) is ErrorCode.TOPIC_NOT_FOUND
