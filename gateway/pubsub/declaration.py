"""The declaration of CoAP's publish-subscribe draft, which the entry point `pubsub` of `gateway.use_cases` names."""

from __future__ import annotations

from typing import Final

from domain.admin.data_topic import (
    ChangeDataTopic,
    DeleteDataTopic,
    JoinDataTopic,
    LeaveDataTopic,
    ListDataTopics,
    MakeDataTopic,
    QueryDataTopic,
)
from gateway.access.needs import CommandNeeds, of_nothing
from gateway.guard.writes import Writes
from gateway.node.use_cases import UseCaseContext, UseCaseDeclaration, UseCaseParts
from gateway.pubsub.data_topics import DataTopics


def _make(context: UseCaseContext) -> UseCaseParts:
    if not context.own_store:
        return UseCaseParts()
    handler = context.handler
    book = DataTopics(
        context.store.state, handler.topics, handler.sending, context.clock, context.entropy, handler.questions, context.rights
    )

    def figures() -> dict[str, float]:
        return {
            "data_topics": len(book),
            "data_topics_refused_total": book.refused,
            "data_topic_subscribers": book.subscribers.count,
            "data_topic_subscribers_refused_total": book.subscribers.refused,
        }

    return UseCaseParts(verbs=(book,), removed=book.value_removed, figures=figures)


USE_CASE: Final = UseCaseDeclaration(
    make=_make,
    # A topic of the draft is known by an id: its book asks for the rights on its path (`gateway/access/path_rights.py`).
    needs=CommandNeeds(
        dict.fromkeys(
            (MakeDataTopic, ChangeDataTopic, QueryDataTopic, ListDataTopics, DeleteDataTopic, JoinDataTopic), of_nothing
        ),
        frozenset({LeaveDataTopic}),
    ),
    writes=Writes(setting=frozenset({MakeDataTopic, ChangeDataTopic, DeleteDataTopic})),
)
