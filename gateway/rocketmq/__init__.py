"""A message store whose messages are in an Apache RocketMQ cluster: its brokers are asked by the remoting protocol. No I/O."""
