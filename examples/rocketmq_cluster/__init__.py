"""A gateway before an Apache RocketMQ cluster."""
