"""Delivery of messages to sinks: leases, requests, retries, consent and settlement."""
