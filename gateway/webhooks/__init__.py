"""Webhooks out: subscriptions as records, who delivers for them, and the delivery itself. See docs/protocols/webhooks.md."""
