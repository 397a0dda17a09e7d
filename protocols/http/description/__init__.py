"""The description of the API, for programs and for people."""
