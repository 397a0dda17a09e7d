"""Handlers of requests that are answered whole: events, messages, groups, users, webhooks."""
