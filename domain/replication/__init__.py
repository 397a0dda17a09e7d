"""Replication of a store group: what replicas say to each other, and the log of a replica as a follower and as a leader."""
