"""A full disk: its errors, the wait for room, and the admission of writes."""
