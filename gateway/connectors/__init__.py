"""Connectors: programs of other systems that read and write topics."""
