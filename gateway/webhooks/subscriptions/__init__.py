"""Subscriptions as a store group keeps them: their records, claims on them, attempts, and what is done about them."""
