"""One answer on many machines: experts in shards, each a Ray actor with its copy of the model.

``RayModel`` (model.py) makes ``RayRows`` (rows.py), which give ``RayStep`` (step.py). What they do
is written down as a script (scripts.py) for every worker. ``Crew`` (crew.py) carries scripts to
workers and repeats them; ``Worker`` (worker.py) is the actor, and ``Shard`` (shard.py) acts.
"""

from dpicl_rag.language_models.ray.model import RayModel

__all__ = ["RayModel"]
