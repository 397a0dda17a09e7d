"""Clients of a gateway, forwarded: their commands to the node that carries them out, and its events back."""
