"""Reads of a range from a replica that follows: as far as it has it, and the caller goes on at the leader."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import final

from gateway.client.answer import PULL_STATUS, ClientError, PullReply, pulled
from gateway.client.link import Link
from gateway.client.request import PULL

_log = logging.getLogger(__name__)


@final
class FollowerReader:
    """Pulls of one range, in order, from one replica.

    address   host:port of the replica
    failed    True: it did not answer
    """

    def __init__(self, address: str, connect: Callable[[str], Link]) -> None:
        """`connect(address)` is the connection that this client has to a server; it raises OSError and ClientError."""
        self.address = address
        self.failed = False
        self._connect = connect
        self._pending: tuple[Link, int] | None = None

    def ahead(self, fields: Mapping[str, str]) -> None:
        """Send the next pull, without waiting for its reply."""
        try:
            link = self._connect(self.address)
            self._pending = link, link.post([(PULL, fields, b"")])[0]
        except (OSError, ClientError) as error:
            self._give_up(error)

    def pull(self, fields: Mapping[str, str]) -> PullReply | None:
        """The reply to the pull that was sent ahead, or to this one.

        None when the replica does not lead on: it has no more of the range, refuses, or does not answer. The leader has to be
        asked then, and this object is not used any more.
        """
        if self._pending is None:
            self.ahead(fields)
        if self._pending is None:
            return None
        link, opaque = self._pending
        self._pending = None
        try:
            frame = link.take([opaque])[0]
            found = pulled(frame) if frame.code in PULL_STATUS else None
        except (OSError, ClientError) as error:
            link.close()
            self._give_up(error)
            return None
        leads_on = found is not None and found.next_offset > int(fields["queueOffset"])
        return found if leads_on and found is not None and found.status in ("FOUND", "NO_MATCH") else None

    def _give_up(self, error: Exception) -> None:
        self.failed = True
        _log.info("the replica at %s is not read any more, the leader is: %s", self.address, error)
