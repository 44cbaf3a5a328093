"""One answer, from the retrieved documents to the released text."""
