"""The administration's commands and their events, by what they are about."""
