"""The queue index: log positions of messages by queue and offset."""
