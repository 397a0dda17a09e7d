"""Calls between nodes: what a gateway asks a store, in frames of the remoting protocol.

A life of a node is one run of its process. A frame carries the calls, or the answers, of one turn of the event loop.
docs/decisions/0037-calls-between-nodes.md
"""
