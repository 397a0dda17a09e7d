"""The name server's settings: keys and values by namespace (RocketMQ's KVConfigManager), stored as state records of the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.store.store_ports import State, StateChange

SPACE: Final = "nameserver"
NAME_BYTES_MAX: Final = 1_024
"""Bytes of namespace, NUL and key in UTF-8."""
VALUE_BYTES_MAX: Final = 65_536
"""Bytes of a value in UTF-8."""


@final
class StoredSettings:
    """Settings in the state space `nameserver`; the state key is `namespace NUL key`."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._values: dict[str, dict[str, str]] = {}
        state.follow(SPACE, self._changed)

    def _changed(self, name: bytes, value: bytes | None) -> None:
        namespace, _, key = name.decode().partition("\x00")
        if value is not None:
            self._values.setdefault(namespace, {})[key] = value.decode()
            return
        values = self._values.get(namespace, {})
        values.pop(key, None)
        if not values:
            self._values.pop(namespace, None)

    def put(self, namespace: str, key: str, value: str | None, done: Callable[[Failure | None], None]) -> None:
        """Set a key, or remove it when `value` is None, durably before `done`.

        ARGUMENT_ILLEGAL: an empty name, a NUL in the namespace, or a name or value that is too long.
        """
        name = f"{namespace}\x00{key}".encode()
        data = None if value is None else value.encode()
        if not namespace or not key or "\x00" in namespace or len(name) > NAME_BYTES_MAX or len(data or b"") > VALUE_BYTES_MAX:
            text = f"a namespace and a key are needed, {NAME_BYTES_MAX} bytes at most; a value has at most {VALUE_BYTES_MAX}"
            done(Failure(ErrorCode.ARGUMENT_ILLEGAL, text))
            return
        self._state.put([StateChange(SPACE, name, data)], done)

    def get(self, namespace: str, key: str) -> str | None:
        """The value of a key; None when it is not set."""
        return self._values.get(namespace, {}).get(key)

    def all(self, namespace: str) -> dict[str, str]:
        """Key -> value of all keys of one namespace, by key."""
        return dict(sorted(self._values.get(namespace, {}).items()))
