"""Set-up for tests of lite topics: groups created as by mqadmin, and the Java client with its scenes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.interop.grpc.setup import UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, ask
from tests.interop.killed_clients import Client
from tests.interop.node import Node


def make_lite_group(node: Node, group: str, topic: str, orderly: bool = True, **attributes: str) -> None:
    """Create a group as `mqadmin updateSubGroup -o true --attributes +k=v` does; `lite_sub_model` stands for lite.sub.model."""
    told = {f"+{key.replace('_', '.')}": value for key, value in {"lite_bind_topic": topic, **attributes}.items()}
    body = {"groupName": group, "consumeMessageOrderly": orderly, "attributes": told}
    ask(node, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps(body).encode())


class LiteClient(Client):
    """`Lite.java` with SCENE:TOPIC:GROUP of each scene."""

    def __init__(self, command: Sequence[str], endpoint: str, scenes: Sequence[str], home: Path) -> None:
        super().__init__([*command, "Lite", endpoint, *scenes], home)

    def seen(self) -> dict[str, list[list[str]]]:
        """Wait until all scenes have ended. Returns group -> the fields of its lines."""
        self.notified()
        found: dict[str, list[list[str]]] = {}
        for line in "".join(self._said).splitlines():
            kind, *fields = line.split("\t")
            if kind == "seen":
                found.setdefault(fields[0], []).append(fields[1:])
        return found
