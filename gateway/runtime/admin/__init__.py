"""The admin port: one aiohttp application for every role, and for every state of a node."""
