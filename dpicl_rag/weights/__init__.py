"""Model files: from a package or the hub, checked by hash."""
