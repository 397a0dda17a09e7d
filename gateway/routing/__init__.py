"""From a record's path to the topic filters that match it."""
