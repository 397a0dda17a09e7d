"""The name server: where topics are, its commands and events, and its ports."""
