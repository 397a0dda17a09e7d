"""Who holds which message until when."""
