"""The real world: clock, sockets, disk, entropy, signals. Nothing else in Headgate touches it."""
