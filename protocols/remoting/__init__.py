"""The RocketMQ remoting protocol, for clients of a name server and of a broker.

Clients of a broker use the frames of this package alone: nothing is imported here.
"""
