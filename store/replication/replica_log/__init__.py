"""The log of a replica: bytes that follow a leader's, applied once they are confirmed; and the log of a replica that leads."""
