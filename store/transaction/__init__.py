"""Half messages of open transactions."""
