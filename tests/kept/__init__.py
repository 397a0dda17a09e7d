"""What nodes of commit 44998bdc have written and sent, kept as files, and tests that the present code reads it."""
