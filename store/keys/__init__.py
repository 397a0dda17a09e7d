"""Where the messages of a key are."""
