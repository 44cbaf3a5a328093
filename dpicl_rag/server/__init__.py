"""Private answers over HTTP, in the form of OpenAI's API.

A corpus is a model name. What leaves is what an answer releases, and public numbers.
"""
