"""Classification methods of the literature, each with its exact charge."""
