"""OSCORE (RFC 8613): requests and responses that are protected one by one, whatever carries them."""
