"""Gateways before Apache RocketMQ in controller mode, while gateways and Apache's masters are killed."""
