"""Calls between nodes: what a gateway asks a store, in frames of the remoting protocol."""
