"""Counters of a running node, and metrics in Prometheus' text format."""
