"""Loaders: documents with privacy units from mailboxes, tables, and folders of texts or images."""

from dpicl_rag.loaders.images import load_images
from dpicl_rag.loaders.loader import load
from dpicl_rag.loaders.private_table import load_private_table
from dpicl_rag.loaders.report import LoadReport, LoadResult, Skipped

__all__ = ["LoadReport", "LoadResult", "Skipped", "load", "load_images", "load_private_table"]
