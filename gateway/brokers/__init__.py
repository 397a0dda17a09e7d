"""Messages at brokers, whichever they are: links to them, the map of a cluster, queues, sends, reads and tails."""
