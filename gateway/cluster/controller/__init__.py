"""Controller of a group: links to the other controllers, and answers to brokers and tools."""
