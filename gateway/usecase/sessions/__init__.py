"""Sessions of clients that come and go, and their messages in flight. See docs/decisions/0006-mqtt-sessions.md."""
