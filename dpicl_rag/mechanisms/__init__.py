"""Utilities of experts, steps of an answer, and the mechanisms that draw from them."""
