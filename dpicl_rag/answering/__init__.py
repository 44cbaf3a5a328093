"""One answer, from what was retrieved to what is released."""
