"""A made-up mailbox of a customer support desk, and the generator that writes it."""
