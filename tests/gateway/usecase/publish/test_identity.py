"""Message ids that the gateway gives."""

from __future__ import annotations

from gateway.usecase.publish.identity import MessageIds


class Drawn:
    """An Entropy port that returns known bytes."""

    def __init__(self, counter: bytes) -> None:
        self._counter = counter

    def random(self) -> float:
        return 0.5

    def token(self, size: int) -> bytes:
        return bytes(range(0xA0, 0xA0 + size)) if size == 8 else self._counter


def test_ids_count_on_across_every_digit() -> None:
    first = 0xFFFE_FF
    ids = MessageIds(Drawn(first.to_bytes(4, "big")))
    minted = [ids.mint() for _ in range(1_000)]
    assert minted == [f"A0A1A2A3A4A5A6A7{first + number:016X}" for number in range(1, 1_001)]


def test_the_first_id_may_end_in_zeros() -> None:
    assert MessageIds(Drawn(b"\x00\x00\x01\xff")).mint() == "A0A1A2A3A4A5A6A70000000000000200"
