"""Who may do what: one authority for every protocol (docs/access.md)."""
