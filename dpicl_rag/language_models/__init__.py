"""Language models as rows of log-probabilities."""
