"""The run of `headgate import`: read the cluster, make what the node lacks, print what was done and what could not be."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from domain.admin.text_table import aligned
from gateway.client.connections import ServerConnections
from gateway.client.security import KeyPlace, Tls
from gateway.importing.cluster import read_cluster
from gateway.importing.groups import copy_groups, copy_positions
from gateway.importing.rights import copy_rights
from gateway.importing.row import Outcome, Row
from gateway.importing.server import TIMEOUT_S, Server
from gateway.importing.topics import copy_topics

ALL_COPIED, SOME_LEFT = 0, 1
QUIET: Final = frozenset({Outcome.SAME})
"""Outcomes without a line of their own, unless there is something to know."""


def run(
    nameservers: Sequence[str],
    node: str,
    *,
    cluster: str = "",
    key: KeyPlace | None = None,
    node_key: KeyPlace | None = None,
    tls: Tls | None = None,
    node_tls: Tls | None = None,
    dry: bool = False,
    as_json: bool = False,
    say: Callable[[str], None] = print,
) -> int:
    """Import; the exit status: 0 everything is at the node, 1 something could not be copied.

    Raises ConfigError, and GarbledError for answers without what they should have.

    nameservers   host:port of the cluster's name servers
    node          host:port of the node's remoting port
    key, tls      for the cluster; node_key, node_tls: for the node
    dry           True: only report the steps
    """
    with ServerConnections(TIMEOUT_S, tls, key) as source, ServerConnections(TIMEOUT_S, node_tls, node_key) as own:
        target = Server(node, "node", own)
        name, brokers = read_cluster(nameservers, cluster, source)
        rows = [
            *copy_topics(brokers, name, target, dry),
            *copy_groups(brokers, target, dry),
            *copy_positions(brokers, target, dry),
            *copy_rights(brokers, target, dry),
        ]
    if as_json:
        plain = [{**row._asdict(), "outcome": row.outcome.value} for row in rows]
        say(json.dumps({"cluster": name, "node": node, "dry_run": dry, "rows": plain}, indent=2))
    else:
        for line in _lines(rows, name, [broker.name for broker in brokers], dry):
            say(line)
    return SOME_LEFT if any(row.outcome is Outcome.LEFT for row in rows) else ALL_COPIED


def _lines(rows: Sequence[Row], cluster: str, brokers: Sequence[str], dry: bool) -> list[str]:
    shown = [row for row in rows if row.outcome not in QUIET or row.detail]
    lines = aligned([(row.kind, row.name, row.outcome.value, row.detail) for row in shown])
    if lines:
        lines.append("")
    lines.append(f"cluster {cluster}, brokers {', '.join(brokers)}")
    for kind in dict.fromkeys(row.kind for row in rows):
        counts = Counter(row.outcome for row in rows if row.kind == kind)
        lines.append(f"{kind + ':':<10}" + ", ".join(f"{counts[each]:,} {each.value}" for each in Outcome if counts[each]))
    if dry:
        lines.append("dry run: nothing was changed")
    return lines
