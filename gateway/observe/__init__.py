"""What can be seen of a running node: counters and their Prometheus text."""
