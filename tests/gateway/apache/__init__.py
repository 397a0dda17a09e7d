"""Tests of the store over an Apache RocketMQ cluster, with scripted servers under virtual time."""
