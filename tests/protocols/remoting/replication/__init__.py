"""Tests of protocols/remoting/replication."""
