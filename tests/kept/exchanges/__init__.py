"""Frames between nodes: values, how the present code writes them, and how it reads the bytes."""
