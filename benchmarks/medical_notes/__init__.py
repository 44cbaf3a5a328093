"""Notes of a ward about made-up diseases, worded ten ways, and 20 questions about them."""
