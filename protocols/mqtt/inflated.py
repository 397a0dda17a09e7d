"""Decompressed bodies and their encodings for subscribers, kept while others are likely to need them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, final

from domain.delivery.routed import FormKey, RoutedRecord

BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes that are kept: a body of the greatest size, and its PUBLISH for two kinds of subscribers."""


@final
class InflatedForms:
    """Bodies and encodings of compressed messages, the newest BYTES_MAX of them, for all connections of a node.

    A subscriber that does not read keeps its deliveries, and with them all bytes that are kept at their records. Compressed
    records are small, decompressed ones are not: 4 KB may become 4 MiB.
    """

    def __init__(self) -> None:
        self._bytes = 0
        self._forms: OrderedDict[tuple[RoutedRecord, FormKey], tuple[bytes, bytes]] = OrderedDict()

    def get(self, routed: RoutedRecord, key: FormKey) -> tuple[bytes, bytes] | None:
        """The encoding with this key; None when it is not kept."""
        return self._forms.get((routed, key))

    def put(self, routed: RoutedRecord, key: FormKey, form: tuple[bytes, bytes]) -> None:
        """Add an encoding that is not kept yet. The oldest encodings are removed while all have more than BYTES_MAX."""
        self._forms[(routed, key)] = form
        self._bytes += len(form[0]) + len(form[1])
        while self._bytes > BYTES_MAX and len(self._forms) > 1:
            _, (head, tail) = self._forms.popitem(last=False)
            self._bytes -= len(head) + len(tail)
