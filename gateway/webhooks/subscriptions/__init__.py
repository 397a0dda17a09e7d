"""Subscriptions of a store group: records, claims, attempts, status changes, resets and redrives."""
