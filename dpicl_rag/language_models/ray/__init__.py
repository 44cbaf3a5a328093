"""One answer on many machines: experts in shards, each a Ray actor with its copy of the model.

``RayModel`` makes ``RayRows`` (worker_rows.py), which give ``RayStep`` (worker_step.py). What they
do is written down as commands (commands.py) for every worker. ``WorkerPool`` (worker_pool.py)
carries them to workers and repeats them; ``Worker`` (worker.py) is the actor, and ``Shard``
(shard.py) acts.
"""

from dpicl_rag.language_models.ray.ray_model import RayModel

__all__ = ["RayModel"]
