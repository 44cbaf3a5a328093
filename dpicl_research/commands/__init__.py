"""The commands ``dpicl-rag evaluate``."""
