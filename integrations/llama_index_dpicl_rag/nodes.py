"""LlamaIndex nodes as documents of the library."""

from __future__ import annotations

from llama_index.core.schema import BaseNode, MetadataMode

from dpicl_rag.documents import Document, unit_of

SOURCE_FIELD = "document_id"
"""Where LlamaIndex's vector stores keep the source document of a node."""


def as_document(node: BaseNode, unit_field: str) -> Document:
    """A node with its privacy unit; the text is the node's own, without its metadata.

    Args:
        node: A node of an index.
        unit_field: Metadata field that holds the privacy unit. ``"document_id"`` is the node's
            source document, and ``"document"`` makes each node a unit.

    Raises:
        ConfigurationError: The node lacks the field.
    """
    # As LlamaIndex's vector stores write it, over a field of that name.
    fields = {**node.metadata, SOURCE_FIELD: node.ref_doc_id or "None"}
    return Document(
        node.get_content(metadata_mode=MetadataMode.NONE),
        unit_of(node.node_id, fields, unit_field),
    )
