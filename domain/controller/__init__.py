"""What a controller decides about store groups: their state, changes of it, and the requests of brokers and tools."""
