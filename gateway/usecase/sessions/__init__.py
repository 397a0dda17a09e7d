"""Sessions of clients that come and go, and what is on its way to them. See docs/decisions/0006-mqtt-sessions.md."""
