"""Readers: chat models that read one document and say in text what it says to a question.

A language model that gives no log-probabilities can draw no token. It can read: each call sees one
privacy unit and public text, and its reply stands in the unit's place (docs/readers.md).
"""
