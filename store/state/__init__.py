"""State records and their compacted view."""
