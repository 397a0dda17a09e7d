"""What talks to a node from outside: a blocking client of the remoting protocol."""
