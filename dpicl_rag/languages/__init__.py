"""Languages of public questions: their words, and the kinds of answers that they ask for."""
