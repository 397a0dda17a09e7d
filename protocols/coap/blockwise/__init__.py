"""Block-wise transfer (RFC 7959)."""
