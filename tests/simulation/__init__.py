"""Whole nodes in one thread under a seed: virtual time, simulated network and disk, the real composition of the node."""
