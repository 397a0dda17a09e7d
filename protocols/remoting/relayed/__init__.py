"""Remoting connections whose frames are passed on to servers of an Apache RocketMQ cluster, and back, as they are."""
