"""How much anybody may have: connections, messages and bytes, decided from counts and a time that is handed in."""
