"""The leaderboard: methods that answer from private documents, at equal true epsilon and delta."""
