"""Stores other than Chroma whose search can be exact, as sources of vectors."""
