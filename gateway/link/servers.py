"""Servers as settings name them: where they are, which key signs requests to them, which authorities have signed for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from domain.address import endpoint_of


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers that one table of the settings names.

    table       its name, for error texts
    endpoints   (host, port) of each, once
    key_file    file whose first line is `NAME:PASSWORD`; "": see `key_env`
    key_env     environment variable with the same text; "": requests are not signed
    ca          PEM file of the authorities of their certificates; "": plain text
    ca_name     the setting that names `ca`
    key_name    the setting that names `key_file`
    """

    table: str
    endpoints: tuple[tuple[str, int], ...]
    key_file: str
    ca: str
    key_env: str = ""
    ca_name: str = "ca"
    key_name: str = "access_key_file"

    @property
    def key_setting(self) -> str:
        """The setting that names the place of the key, with its table."""
        return f"{self.table}.{'access_key_env' if self.key_env else self.key_name}"

    @property
    def ca_setting(self) -> str:
        """The setting that names `ca`, with its table."""
        return f"{self.table}.{self.ca_name}"


def endpoints_of(texts: Iterable[str], setting: str, noun: str, port: int) -> tuple[tuple[str, int], ...]:
    """`HOST:PORT` of each server -> (host, port) of each, once. Raises ValueError with the form that `setting` requires.

    noun   a server, in words
    port   usual port of such a server
    """
    found: dict[tuple[str, int], None] = {}
    for text in texts:
        endpoint = endpoint_of(text.strip())
        if endpoint is None:
            raise ValueError(f"{setting} has {text!r}: HOST:PORT of {noun} is wanted, as in 10.0.0.5:{port}")
        found[endpoint] = None
    return tuple(found)
