"""Leases of a cluster: POP at its brokers, and what is done with the receipts."""
