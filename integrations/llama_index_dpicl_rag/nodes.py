"""LlamaIndex nodes as records of their index."""

from __future__ import annotations

from llama_index.core.schema import BaseNode, MetadataMode

from dpicl_rag.loaders.framework_documents import fields_of_node
from dpicl_rag.retrieval.stored_record import Defect, StoredRecord, record_of


def record_of_node(node: BaseNode, unit_field: str) -> StoredRecord | Defect:
    """A node with its privacy unit; the text is the node's own, without its metadata.

    Args:
        node: A node of an index.
        unit_field: Metadata field that holds the privacy unit. ``"document_id"`` is the node's
            source document, and ``"document"`` makes each node a unit.
    """
    text = node.get_content(metadata_mode=MetadataMode.NONE)
    return record_of(node.node_id, fields_of_node(node), text, unit_field)
