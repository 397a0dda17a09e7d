"""Pulls by members: refused by name. Behind Apache RocketMQ a group is POP or PULL, never both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import final

from domain.errors import ErrorCode, Failure
from domain.store.store_ports import ReadResult
from domain.store.store_request import PullRequest

_TEXT = (
    "a group behind Apache RocketMQ receives by POP or pulls by the remoting protocol, never both, since brokers keep no common"
    " account of them: consumers that pull reach their brokers through this gateway's remoting port"
)


@final
class RocketmqPulls:
    """`MemberPulls`. Consumers of the remoting protocol do not come here: their requests are relayed to their brokers."""

    def pull(self, request: PullRequest, done: Callable[[ReadResult | Failure], None]) -> None:
        """MemberPulls.pull: NOT_SUPPORTED."""
        done(Failure(ErrorCode.NOT_SUPPORTED, _TEXT))

    def report(
        self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None] | None
    ) -> None:
        """MemberPulls.report: NOT_SUPPORTED."""
        if done is not None:
            done(Failure(ErrorCode.NOT_SUPPORTED, _TEXT))

    def renew(self, group: str, member: str, reconnected: bool) -> None:
        """MemberPulls.renew: does nothing, since pulls are refused."""

    def release(self, group: str, member: str, kept: Collection[str]) -> None:
        """MemberPulls.release: does nothing, since pulls are refused."""
