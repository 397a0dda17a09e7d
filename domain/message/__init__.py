"""Messages: their fields, properties, receipts, and their stored form."""
