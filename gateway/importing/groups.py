"""Consumer groups, with the configuration that the first broker has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import orjson

from domain import address
from gateway.importing.cluster import SourceBroker
from gateway.importing.row import Outcome, Row, done
from gateway.importing.server import Server, objects
from protocols.remoting import codes

KIND: Final = "group"
COPIED: Final = (
    "consumeEnable", "consumeFromMinEnable", "consumeBroadcastEnable", "consumeMessageOrderly", "retryQueueNums",
    "retryMaxTimes", "notifyConsumerIdsChangedEnable", "groupRetryPolicy",
)  # fmt: skip
"""Fields of a SubscriptionGroupConfig that the node has too. The others concern brokers with slaves."""


def copy_groups(brokers: Sequence[SourceBroker], node: Server, dry: bool) -> Iterator[Row]:
    """Make the groups at the node. A group that is there keeps its configuration."""
    there = objects(node.table(codes.GET_ALL_GROUPS).get("subscriptionGroupTable"))
    asked: list[tuple[str, Mapping[str, object], str]] = []
    for name, config, detail in _wanted(brokers):
        if name not in there:
            asked.append((name, config, detail))
            continue
        others = [field for field in COPIED if field in config and _differs(field, config, there[name])]
        if others:
            yield Row(KIND, name, Outcome.KEPT, f"{', '.join(others)}: another value at the node")
        else:
            yield Row(KIND, name, Outcome.SAME, detail)
    if dry:
        yield from (Row(KIND, name, Outcome.MADE, detail) for name, _, detail in asked)
        return
    answers = node.ask_all([(codes.UPDATE_GROUP, {}, orjson.dumps(config)) for _, config, _ in asked])
    for (name, _, detail), answer in zip(asked, answers, strict=True):
        yield done(KIND, name, Outcome.MADE, detail, answer)


def _wanted(brokers: Sequence[SourceBroker]) -> Iterator[tuple[str, dict[str, object], str]]:
    """(name, configuration, what there is to know) of each group of users."""
    names = sorted({name for broker in brokers for name in broker.groups if not address.is_system_group(name)})
    for name in names:
        all_of = [broker.groups[name] for broker in brokers if name in broker.groups]
        config: dict[str, object] = {str(field): all_of[0][field] for field in COPIED if field in all_of[0]}
        others = {field for each in all_of[1:] for field in COPIED if field in each and each[field] != config.get(field)}
        detail = f"brokers differ in {', '.join(sorted(others))}: {brokers[0].name} is taken" if others else ""
        yield name, {"groupName": name, **config}, detail


def _differs(field: str, wanted: Mapping[str, object], there: Mapping[str, object]) -> bool:
    """True when the node has the field with another value. A retry policy that is not written out is the default one."""
    mine, theirs = wanted.get(field), there.get(field)
    if field == "groupRetryPolicy":
        return _policy(mine) != _policy(theirs)
    return theirs is not None and mine != theirs


def _policy(found: object) -> object:
    if not isinstance(found, dict):
        return None
    return {name: each for name, each in found.items() if name != "type" and each is not None} or None
