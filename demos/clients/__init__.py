"""Programs that ask a served corpus."""
