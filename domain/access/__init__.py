"""Access: credentials, principals and contexts."""
