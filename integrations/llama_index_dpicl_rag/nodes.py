"""LlamaIndex nodes as documents of the library."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llama_index.core.schema import BaseNode, MetadataMode

from dpicl_rag.documents import Document
from dpicl_rag.retrieval.defects import Defect, record_of
from dpicl_rag.retrieval.passages import Record

SOURCE_FIELD = "document_id"
"""Where LlamaIndex's vector stores keep the source document of a node."""


def record_of_node(node: BaseNode, unit_field: str) -> Record | Defect:
    """A node with its privacy unit; the text is the node's own, without its metadata.

    Args:
        node: A node of an index.
        unit_field: Metadata field that holds the privacy unit. ``"document_id"`` is the node's
            source document, and ``"document"`` makes each node a unit.
    """
    text = node.get_content(metadata_mode=MetadataMode.NONE)
    return record_of(node.node_id, fields_of_node(node), text, unit_field)


def fields_of_node(node: BaseNode) -> dict[str, Any]:
    """The metadata of a node, as LlamaIndex's vector stores write it: with its source document."""
    return {**node.metadata, SOURCE_FIELD: node.ref_doc_id or "None"}


def as_documents(nodes: Iterable[BaseNode], unit_field: str) -> list[Document]:
    """Nodes as documents. One that lacks the unit's field is left out: an error would tell of it.

    Args:
        nodes: Nodes that were retrieved.
        unit_field: As for `record_of_node`.
    """
    records = (record_of_node(node, unit_field) for node in nodes)
    return [Document(record.text, record.unit) for record in records if isinstance(record, Record)]
