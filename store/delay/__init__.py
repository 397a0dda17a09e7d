"""Delayed messages: timers and delay levels."""
