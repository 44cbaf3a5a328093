"""What private answers are compared with."""
