"""Whole clusters under seeds: replicas with stores, controllers, gateways and clients of all protocols, in one process."""
