"""Conversion: text from PDF, office, book and Outlook files, in a process of its own.

Nothing here is imported before the first such file is read, and the libraries that read them never
in the process that loads: see `dpicl_rag.conversion.child`.
"""

from dpicl_rag.conversion.conversions import Conversions, NotConvertedError

__all__ = ["Conversions", "NotConvertedError"]
