"""Streams of messages over HTTP/1.1 and HTTP/2, with the use cases over a store in memory behind them."""
