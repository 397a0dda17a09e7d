"""Authentication and access control: one authority for every protocol (docs/access.md)."""
