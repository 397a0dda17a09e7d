"""Lite topics: subscriptions, receiving, suspension, inspection, and deletion when they are idle."""
