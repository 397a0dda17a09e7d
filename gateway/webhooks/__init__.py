"""Outgoing webhooks: subscriptions, claims of processes on them, and delivery to sinks. See docs/protocols/webhooks.md."""
