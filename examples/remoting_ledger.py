"""Headgate's client of the remoting protocol: send, and read by offset: `python -m examples.remoting_ledger [nameserver]`."""

from __future__ import annotations

import sys

from domain.message.record import Record
from gateway.client.client import Client


def main(nameserver: str = "127.0.0.1:9876") -> None:
    """Send one message to topic `ledger` and read its queue from that offset on."""
    with Client(nameserver) as client:
        sent = client.send("ledger", b"42.00 EUR", tag="credit", keys=["A-17"])
        print(f"sent to queue {sent.queue.queue_id} at offset {sent.offset}")
        for pull in client.scan(sent.queue, sent.offset, sent.offset + 1):
            record = Record(pull.body)
            print(f"read {record.body.decode()} of {record.store_ms} ms")


if __name__ == "__main__":
    main(*sys.argv[1:])
