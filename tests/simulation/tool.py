"""A blocking client with the requests of mqadmin: topics, groups, positions, queries and users."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Mapping

from domain.message.record import Record
from protocols.remoting import codes
from tests.simulation.caller import Caller, records
from tests.simulation.world import World

EVER_MS = 1 << 50
PLACE = re.compile(rb'"queueId":(\d+)[^}]*}:(\d+)')


class Tool(Caller):
    """Sends one request after the other, signed if it has a user and a password (AclClientRPCHook)."""

    def __init__(self, world: World, name: str, user: str = "", password: str = "", port: str = "remoting") -> None:
        self.user, self.password = user, password
        super().__init__(world, name, port)

    def post(
        self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"", oneway: bool = False, flag: int = 0
    ) -> int:
        signed = dict(fields or {})
        if self.user:
            signed["AccessKey"] = self.user
            text = "".join(signed[key] for key in sorted(signed)).encode() + body
            mac = hmac.new(self.password.encode(), text, hashlib.sha1)
            signed["Signature"] = base64.b64encode(mac.digest()).decode()
        return super().post(code, signed, body, oneway, flag)

    def topic(self, name: str, queues: int = 1, **attributes: str) -> None:
        """Create a topic; attribute names have `_` for a dot."""
        text = ",".join(f"+{key.replace('_', '.')}={value}" for key, value in attributes.items())
        fields = {
            "topic": name, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": "6",
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "attributes": text,
        }  # fmt: skip
        self.done(codes.UPDATE_TOPIC, fields)

    def group(self, name: str, **config: object) -> None:
        """Create or change a group. Argument names are those of SubscriptionGroupConfig."""
        self.done(codes.UPDATE_GROUP, {}, {"groupName": name, **config})

    def reset(self, group: str, topic: str, timestamp_ms: int, force: bool = True) -> dict[int, int]:
        """Reset positions by time (-1: to the end) -> queue: offset."""
        fields = {"topic": topic, "group": group, "timestamp": str(timestamp_ms), "isForce": "true" if force else "false"}
        answer = self.call(codes.RESET_OFFSET, fields)
        assert answer.code == 0, answer.remark
        # fastjson writes a map whose keys are objects, which is not valid JSON.
        return {int(queue): int(offset) for queue, offset in PLACE.findall(answer.body)}

    def clone(self, source: str, target: str, topic: str) -> None:
        """Copy the positions of one group to another."""
        self.done(codes.CLONE_OFFSETS, {"srcGroup": source, "destGroup": target, "topic": topic, "offline": "false"})

    def search(self, topic: str, queue: int, at_ms: int) -> int:
        """The offset at a time."""
        return int(self.done(codes.SEARCH_OFFSET, {"topic": topic, "queueId": str(queue), "timestamp": str(at_ms)})["offset"])

    def by_key(self, topic: str, key: str, begin_ms: int = 0, end_ms: int = EVER_MS, unique: bool = False) -> list[Record]:
        """Messages of a key, or of a unique id, newest first."""
        fields = {
            "topic": topic, "key": key, "maxNum": "64", "beginTimestamp": str(begin_ms), "endTimestamp": str(end_ms),
            "_UNIQUE_KEY_QUERY": "true" if unique else "false",
        }  # fmt: skip
        answer = self.call(codes.QUERY_MESSAGE, fields)
        assert answer.code in (codes.SUCCESS, codes.QUERY_NOT_FOUND), (answer.code, answer.remark)
        return records(answer.body)

    def by_offset_id(self, message_id: str) -> list[Record]:
        """The message of an offset id, nothing when it is gone."""
        answer = self.call(codes.VIEW_MESSAGE, {"offset": str(int(message_id[-16:], 16))})
        return records(answer.body) if answer.code == 0 else []

    def route(self, topic: str) -> dict[str, object] | None:
        """TopicRouteData of the topic; None: it has no route."""
        answer = self.call(codes.GET_ROUTE, {"topic": topic, "acceptStandardJsonOnly": "true"})
        if answer.code == codes.TOPIC_NOT_EXIST:
            return None
        assert answer.code == 0, answer.remark
        found: dict[str, object] = json.loads(answer.body)
        return found
