"""HTTP: the messaging API and CloudEvents, over HTTP/1.1 (`create`) and HTTP/2 (`create_application`), one set of handlers."""

from __future__ import annotations

from protocols.adapter import Setting
from protocols.http.adapter import HttpAdapter, HttpApplicationFactory


def create(setting: Setting) -> HttpAdapter:
    """The stream protocol HTTP/1.1. Raises ConfigError."""
    return HttpAdapter(setting)


def create_application(setting: Setting) -> HttpApplicationFactory:
    """HTTP as an application on HTTP/2. Raises ConfigError."""
    return HttpApplicationFactory(setting)
