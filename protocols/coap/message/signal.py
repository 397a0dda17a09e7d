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
"""What a peer takes that has not told its Max-Message-Size (section 5.3.1)."""
_CLASS: Final = 7


def is_signal(code: int) -> bool:
    """True for every code of class 7."""
    return code >> 5 == _CLASS


def capabilities(message_bytes_max: int) -> bytes:
    """The options of our CSM: the largest message that is taken, and blocks, several in one message (BERT)."""
    return message.join([(MAX_MESSAGE_SIZE, message.uint(message_bytes_max)), (BLOCK_WISE_TRANSFER, b"")])


@final
class Capabilities:
    """What the CSMs of a peer say so far.

    message_bytes_max   the largest message that it takes
    blocks              True: it knows blocks, and several in one message when it takes more than MESSAGE_BYTES
    """

    __slots__ = ("blocks", "message_bytes_max")

    def __init__(self) -> None:
        self.message_bytes_max = MESSAGE_BYTES
        self.blocks = False

    @property
    def bert(self) -> bool:
        """True when it takes several blocks in one message (section 6)."""
        return self.blocks and self.message_bytes_max > MESSAGE_BYTES

    def apply(self, pairs: Pairs) -> None:
        """Take the options of one CSM; elective options that are unknown or too long are ignored."""
        for number, value in pairs:
            if number == MAX_MESSAGE_SIZE and len(value) <= 4:
                self.message_bytes_max = int.from_bytes(value, "big")
            elif number == BLOCK_WISE_TRANSFER:
                self.blocks = True


def critical(pairs: Pairs) -> int:
    """The first option of a signal that must be understood and is not, all signals' known options being elective; 0: none."""
    return next((number for number, _ in pairs if number & 1), 0)
