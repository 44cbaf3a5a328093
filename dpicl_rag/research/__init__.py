"""Experiments: baselines, tasks, attacks and tables of the papers."""
