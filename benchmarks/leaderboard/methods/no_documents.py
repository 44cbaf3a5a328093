"""The model by itself."""

from benchmarks.leaderboard.methods.ordinary_rag import OrdinaryRAG

METHOD = OrdinaryRAG(0, "no documents", "the model alone; the floor")
