"""Tests of protocols/remoting/nodes/replication."""
