"""Tests of gateway/link."""
