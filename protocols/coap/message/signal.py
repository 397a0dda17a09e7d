"""Signals of CoAP over streams (RFC 8323, section 5): CSM, Ping, Pong, Release and Abort."""

from __future__ import annotations

from typing import Final, final

from protocols.coap.message import message
from protocols.coap.message.message import Pairs

CSM: Final = 0xE1
PING: Final = 0xE2
PONG: Final = 0xE3
RELEASE: Final = 0xE4
ABORT: Final = 0xE5

MAX_MESSAGE_SIZE: Final = 2
BLOCK_WISE_TRANSFER: Final = 4
CUSTODY: Final = 2
BAD_CSM_OPTION: Final = 2

MESSAGE_BYTES: Final = 1_152
"""Largest message to a peer that has sent no Max-Message-Size (section 5.3.1)."""
_CLASS: Final = 7


def is_signal(code: int) -> bool:
    """True for every code of class 7."""
    return code >> 5 == _CLASS


def capabilities(message_bytes_max: int) -> bytes:
    """Options of the server's CSM: Max-Message-Size and Block-Wise-Transfer, which together allow BERT."""
    return message.join([(MAX_MESSAGE_SIZE, message.uint(message_bytes_max)), (BLOCK_WISE_TRANSFER, b"")])


@final
class Capabilities:
    """Capabilities of a peer, from its CSMs so far.

    message_bytes_max   largest message that it accepts
    blocks              True: it accepts blocks
    """

    __slots__ = ("blocks", "message_bytes_max")

    def __init__(self) -> None:
        self.message_bytes_max = MESSAGE_BYTES
        self.blocks = False

    @property
    def bert(self) -> bool:
        """True when the peer accepts several blocks in one message (section 6)."""
        return self.blocks and self.message_bytes_max > MESSAGE_BYTES

    def apply(self, pairs: Pairs) -> None:
        """Apply the options of one CSM; elective options that are unknown or too long are ignored."""
        for number, value in pairs:
            if number == MAX_MESSAGE_SIZE and len(value) <= 4:
                self.message_bytes_max = int.from_bytes(value, "big")
            elif number == BLOCK_WISE_TRANSFER:
                self.blocks = True


def critical(pairs: Pairs) -> int:
    """First critical option of a signal, 0 without one: all known options of signals are elective."""
    return next((number for number, _ in pairs if number & 1), 0)
