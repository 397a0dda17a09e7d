"""Tests of gateways before a real Apache RocketMQ cluster."""
