"""HTTP connections to sinks of webhooks."""
