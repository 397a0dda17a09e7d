"""Messages on their way in: sending, transactions, recall, latest values."""
