"""Subscriptions of webhooks: values, commands, and the port by which requests go out."""
