"""A message store whose messages are in an Apache RocketMQ cluster: what only Apache's brokers have."""
