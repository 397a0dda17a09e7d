"""Frames, headers and bodies, as bytes."""
