"""Replication of one store group: the state machines of leader and follower, without sockets, disks or tasks."""
