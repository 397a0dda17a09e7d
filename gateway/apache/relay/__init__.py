"""Relay of the connections of remoting clients to the servers of an Apache RocketMQ cluster."""
