"""Tests of protocols/remoting/controller."""
