"""Deliveries to webhooks, and consent."""
