"""Lite topics: who has subscribed to which, what waits for whom, and when they end."""
