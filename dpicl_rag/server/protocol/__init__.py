"""Messages of OpenAI's clients, in and out: the parts that have a meaning here."""
