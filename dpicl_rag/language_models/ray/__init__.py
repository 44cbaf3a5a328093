"""One answer on many machines: experts in shares, each of a Ray actor with its copy of the model.

``RayModel`` makes ``RayRows`` (ray_rows.py). What they ask of a worker is one request that says all
that it needs (worker_messages.py), ``WorkerPool`` (worker_pool.py) carries it, and ``Worker``
(worker.py) answers.
"""

from dpicl_rag.language_models.ray.ray_model import RayModel

__all__ = ["RayModel"]
