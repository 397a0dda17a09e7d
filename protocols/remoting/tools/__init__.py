"""Requests of tools: changes of settings, and questions to a node."""
