"""The key index: log positions of messages by key."""
