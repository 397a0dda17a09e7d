"""How the nodes of a raft group reach each other: messages as bytes."""
