"""Syntax of CoAP: messages, options, frames, signals, CBOR and media types."""
