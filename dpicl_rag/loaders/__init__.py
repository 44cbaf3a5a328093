"""Loaders: documents with privacy units from mailboxes, tables and directories of texts."""

from dpicl_rag.loaders.loader import load
from dpicl_rag.loaders.report import LoadReport, LoadResult, Skipped

__all__ = ["LoadReport", "LoadResult", "Skipped", "load"]
