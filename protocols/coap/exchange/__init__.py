"""The message layer of CoAP over datagrams: exchanges, duplicates, retransmission, responses."""
