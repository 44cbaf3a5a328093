"""A corpus as older versions kept it: passages in a Chroma collection, keys in another."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
from chromadb.config import Settings

from dpicl_rag.corpora import Corpus
from dpicl_rag.corpora.contents import Contents
from dpicl_rag.corpora.corpus_schema import KEY, OFFER, PARTED, TIE


def keep_in_chroma(corpus: Corpus, folder: Path) -> None:
    """Write all that a corpus holds as an older version would have."""
    storage = corpus._storage
    meta = storage.read(lambda c: Contents(c).meta())
    rows = storage.state(corpus.embedder).rows
    held = storage.read(lambda c: Contents(c).records())
    digests = storage.read(lambda c: {d.digest.hex(): d for d in Contents(c).every_document()})
    about: dict[str, Any] = {
        "dpicl_embedder": meta["embedder"],
        "dpicl_chunk_size": meta["size"],
        "dpicl_chunk_overlap": meta["overlap"],
        **({"dpicl_public": True} if meta["public"] else {}),
        **({"dpicl_privacy_unit": meta["kind of unit"]} if "kind of unit" in meta else {}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    with chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False)) as client:
        passages = client.create_collection(
            corpus.name,
            metadata=about,
            embedding_function=None,
            configuration={"hnsw": {"space": "l2"}},
        )
        metadatas = []
        for record, _ in held.values():
            digest, _, position = record.id.rpartition("-")
            document = digests[digest]
            own = {"dpicl_unit": record.unit, "dpicl_document": digest, "dpicl_position": position}
            own |= {"dpicl_record": document.record} if document.record else {}
            own |= {"dpicl_tie": document.tie} if document.tie else {}
            metadatas.append({**record.metadata, **own})
        passages.add(
            [record.id for record, _ in held.values()],
            embeddings=rows.vectors[list(held), : rows.dimensions],
            documents=[record.text for record, _ in held.values()],
            metadatas=metadatas,
        )
        name = "dpicl-units-" + hashlib.sha256(corpus.name.encode()).hexdigest()[:32]
        register = client.create_collection(name, embedding_function=None)
        records: dict[str, dict[str, Any]] = {"version": {"version": "1"}}

        def read(connection: Any) -> None:
            for id, unit, former, on, by, split in KEY.rows(connection):
                merged = {"former": former, "merged": True, "on": on, "by": by} if former else {}
                records[id] = {"unit": unit, **merged, **({"split": True} if split else {})}
            for id, key, unit in OFFER.rows(connection):
                records[f"offered {id}"] = {"offered": key, "unit": unit}
            for id, unit, former in PARTED.rows(connection):
                records[f"parted {id}"] = {"unit": unit, "parted": True, "former": former}
            for document, unit, named, keys, offers, forgotten in TIE.rows(connection):
                fields = {"document": document, "unit": unit, "name": named, "keys": keys}
                fields |= {"offers": offers, **({"forgotten": True} if forgotten else {})}
                records[f"document {document}"] = fields

        storage.read(read)
        register.add(
            list(records),
            embeddings=np.ones((len(records), 1), dtype=np.float32),
            metadatas=list(records.values()),
        )
