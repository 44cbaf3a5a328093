"""Stores that users have, as sources of vectors that are searched exactly."""
