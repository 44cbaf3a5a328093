"""A mailbox in four languages as people write it, and 24 questions about it."""
