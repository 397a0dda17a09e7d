"""Publishing messages: sending, transactions, recall, latest values."""
