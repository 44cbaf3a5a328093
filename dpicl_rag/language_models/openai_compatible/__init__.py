"""Models behind an OpenAI-compatible server: `openai_model.py` is the engine, made for vLLM."""
