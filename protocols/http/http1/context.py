"""Objects that all HTTP/1.1 connections of one adapter share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from protocols.adapter import ignore_refusal
from protocols.host_shares import HostShares
from protocols.http.http1.heads import Heads
from protocols.http.response import DateLine
from protocols.http.router import Router


@dataclass(frozen=True, slots=True)
class ConnectionContext:
    """Facts and tables for every connection.

    refused   counts a refusal: (protocol, reason)
    unread    the bound of answers that clients have not read
    """

    router: Router
    date: DateLine
    refused: Callable[[str, str], None] = ignore_refusal
    unread: HostShares = field(default_factory=HostShares)
    heads: Heads = field(default_factory=Heads)
