"""Loaders: documents with privacy units from mailboxes, tables, and folders of files or images."""

from dpicl_rag.loaders.image_folders import load_images
from dpicl_rag.loaders.load_report import LoadReport, LoadResult, Skipped
from dpicl_rag.loaders.loader import load
from dpicl_rag.loaders.private_table import load_private_table

__all__ = ["LoadReport", "LoadResult", "Skipped", "load", "load_images", "load_private_table"]
