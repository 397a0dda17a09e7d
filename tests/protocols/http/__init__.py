"""HTTP: requests and responses in memory."""
