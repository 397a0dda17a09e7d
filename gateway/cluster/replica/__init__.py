"""Replica of a store group: registration at controllers, following, promotion, leadership, repair of its log."""
