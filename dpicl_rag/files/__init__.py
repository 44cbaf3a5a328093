"""Files of ours: written whole, read by their owner alone."""
