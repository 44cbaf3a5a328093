"""Experiments: baselines, tasks, attacks and tables of the papers, beside the product.

They use ``dpicl_rag``, which imports nothing of them: ``dpicl-rag evaluate`` finds its commands by
an entry point.
"""
