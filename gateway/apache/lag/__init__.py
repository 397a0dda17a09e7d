"""The lag of groups at a cluster: which there are, and what waits for them, asked of the brokers a little at a time."""
