"""The relay: connections of remoting clients are passed on to the servers of an Apache RocketMQ cluster, and back."""
