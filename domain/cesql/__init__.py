"""CESQL 1.0, the expression language of CloudEvents: text to a tree, and a tree to a value over the attributes of an event."""
