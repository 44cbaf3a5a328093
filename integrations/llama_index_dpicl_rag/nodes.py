"""LlamaIndex nodes as documents of the core."""

from __future__ import annotations

from collections.abc import Iterable

from llama_index.core.schema import BaseNode, MetadataMode

from dpicl_rag.documents import Document
from dpicl_rag.errors import ConfigurationError

SOURCE_FIELD = "document_id"
"""Where LlamaIndex's vector stores keep the source document of a node."""

NODE_UNIT = "document"
"""Unit field by which each node is a unit of its own, as `Corpus.from_collection` has it."""


def as_documents(nodes: Iterable[BaseNode], unit_field: str) -> list[Document]:
    """Nodes with their privacy units; the text is the node's own, without its metadata.

    Args:
        nodes: Nodes of an index.
        unit_field: Metadata field that holds the privacy unit. ``"document_id"`` is the node's
            source document, and ``"document"`` makes each node a unit.

    Raises:
        ConfigurationError: A node lacks the field.
    """
    return [
        Document(
            node.get_content(metadata_mode=MetadataMode.NONE),
            unit_of(node, unit_field),
        )
        for node in nodes
    ]


def unit_of(node: BaseNode, unit_field: str) -> str:
    """Privacy unit of a node; see ``as_documents``."""
    if unit_field == NODE_UNIT:
        return node.node_id
    if unit_field == SOURCE_FIELD:
        return node.ref_doc_id or "None"  # as LlamaIndex's vector stores write it
    if unit_field not in node.metadata:
        raise ConfigurationError(
            f"a node has no metadata field {unit_field!r}, which is the privacy unit; every node "
            "needs it"
        )
    return str(node.metadata[unit_field])
