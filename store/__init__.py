"""The bundled log: messages, state and leases of one node on one disk."""
