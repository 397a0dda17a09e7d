"""Send-back: code 36 (RocketMQ's ConsumerSendMsgBackRequestHeader)."""

from __future__ import annotations

from domain.command import SendBack
from protocols.remoting.client import Client
from protocols.remoting.frame import Frame
from protocols.remoting.ticket import Arguments, Outcome, Ticket, done


def read(_client: Client, frame: Frame) -> Outcome:
    """36 -> SendBack."""
    args = Arguments(frame)
    most = args.number("maxReconsumeTimes", -1)
    command = SendBack(
        Ticket(frame, done),
        args.text("group"),
        args.number("offset"),
        args.number("delayLevel"),
        most if most >= 0 else -1,
        args.text("originTopic", ""),
        args.text("originMsgId", ""),
    )
    return (command,)
