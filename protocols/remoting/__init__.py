"""The RocketMQ remoting protocol, for clients of a name server and of a broker."""
