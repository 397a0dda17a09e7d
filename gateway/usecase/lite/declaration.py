"""The declaration of lite topics, which the entry point `lite` of `gateway.use_cases` names."""

from __future__ import annotations

from typing import Final

from domain import lite
from domain.access import GET, SUB, UPDATE
from domain.admin import lite as lite_admin
from gateway.access.needs import CommandNeeds, of_both, of_cluster, of_group, of_its_topic
from gateway.node.use_cases import UseCaseContext, UseCaseDeclaration, UseCaseParts
from gateway.usecase.lite.use_cases import lite_use_cases


def _make(context: UseCaseContext) -> UseCaseParts:
    return UseCaseParts(verbs=lite_use_cases(context.store, context.handler, context.clock, context.policy))


USE_CASE: Final = UseCaseDeclaration(
    make=_make,
    needs=CommandNeeds(
        {
            lite.SyncSubscription: of_both(SUB),
            lite.ReceiveLite: of_both(SUB),
            lite.SuspendLite: of_group(SUB),
            lite_admin.QueryLiteNode: of_cluster(GET),
            lite_admin.QueryLiteParent: of_its_topic(GET),
            lite_admin.QueryLiteTopic: of_its_topic(GET),
            lite_admin.QueryLiteClient: of_both(GET),
            lite_admin.QueryLiteGroup: of_group(GET),
            lite_admin.DispatchLite: of_group(UPDATE),
        }
    ),
)
