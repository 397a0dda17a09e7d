"""Tests of controller/groups."""
