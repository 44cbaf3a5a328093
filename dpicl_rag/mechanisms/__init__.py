"""Mechanisms: what experts say (utilities), what is drawn from (steps), and how (mechanisms)."""
