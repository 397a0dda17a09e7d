"""Topics and consumer groups as configuration: created, changed, listed, deleted, counted."""
