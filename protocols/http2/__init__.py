"""HTTP/2 (RFC 9113): one connection, many streams, each handed to the application that accepts it."""

from __future__ import annotations

from collections.abc import Sequence

from protocols.adapter import Setting
from protocols.http2.adapter import Http2Adapter
from protocols.http2.application import ApplicationFactory


def create(setting: Setting, applications: Sequence[ApplicationFactory]) -> Http2Adapter:
    """The adapter, with its applications in the order in which they are asked. Setting: every entry point is given it."""
    return Http2Adapter(applications)
