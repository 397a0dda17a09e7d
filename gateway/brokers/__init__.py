"""Messages at the brokers of a cluster: links to them, the map of the cluster, queues, sends, reads and tails."""
