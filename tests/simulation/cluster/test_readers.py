"""Positions, ends of queues and latest values do not go back for clients of any protocol, whoever answers them."""

from __future__ import annotations

import pytest

from tests.simulation.cluster.readers import run, run_moved


@pytest.mark.parametrize("first", range(0, 8, 2))
def test_no_answer_is_older_than_one_before_its_question(first: int) -> None:
    runs = [run(seed) for seed in (first, first + 1)]
    assert sum(each.cluster.checkers.serving for each in runs) > 3, "leaders are replaced"
    for each in runs:
        answers = each.seen.answers
        for kind in ("remoting position", "remoting end", "http end", "http latest", "coap latest", "mqtt latest"):
            assert sum(count for who, count in answers.items() if who.startswith(kind)) > 50, kind
        assert len({who.rpartition(" at ")[2] for who in answers}) > 2, "gateways and replicas are asked"
        assert each.writer.stored > 50


@pytest.mark.parametrize("seed", range(2))
def test_no_answer_is_older_where_the_next_leader_is_elected_while_the_one_before_may_answer(seed: int) -> None:
    found = run_moved(seed)
    assert found.partings > 3
    assert found.cluster.checkers.serving > 3, "leaders are replaced"
    assert found.writer.stored > 50
