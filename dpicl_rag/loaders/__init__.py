"""Loaders: documents with privacy units from mailboxes, tables, and folders of files or images."""

from dpicl_rag.loaders.image_folders import load_images
from dpicl_rag.loaders.loader import load, load_private_table
from dpicl_rag.loaders.records import LoadReport, LoadResult, Skipped

__all__ = ["LoadReport", "LoadResult", "Skipped", "load", "load_images", "load_private_table"]
