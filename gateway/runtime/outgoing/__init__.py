"""Connections that the node makes itself: to its store, and to name servers."""
