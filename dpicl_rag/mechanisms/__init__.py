"""Mechanisms that draw from private scores."""
