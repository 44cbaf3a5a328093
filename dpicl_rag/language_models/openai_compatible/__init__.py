"""Models behind an OpenAI-compatible server: `model.py` is the engine, made for vLLM."""
