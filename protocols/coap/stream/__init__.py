"""Responses of CoAP over TCP, TLS and WebSockets."""
