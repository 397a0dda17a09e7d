"""HTTP: the messaging API and CloudEvents, over HTTP/1.1 and HTTP/2, with the same handlers."""
