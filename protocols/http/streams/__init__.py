"""Streams of messages over HTTP: newline-delimited JSON, server-sent events, WebSocket, and uploads record by record."""
