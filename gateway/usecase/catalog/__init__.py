"""Topics and consumer groups as configuration: found, made, changed, deleted, counted."""
