"""A replica of a store group in its process: at the controllers, behind its leader, before its followers."""
