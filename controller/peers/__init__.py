"""Transport between the nodes of a raft group: messages as bytes."""
