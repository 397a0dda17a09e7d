"""Connections that this node makes to other servers: links for requests with answers, streams for frames."""
