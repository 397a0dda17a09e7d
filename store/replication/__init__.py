"""Replication of one store group: what its leader and its followers do, without sockets, disks or tasks."""
