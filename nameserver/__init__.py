"""The state of the name server: registered brokers, their topics, and settings. Pure: times are arguments."""
