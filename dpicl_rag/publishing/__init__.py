"""Publishing: one budget buys a bundle of releases, which is then read without limit."""

from dpicl_rag.publishing.publication import (
    plan_publication,
    publish,
    records_item,
    remembered_items,
)
from dpicl_rag.publishing.publication_plan import PublicationPlan

__all__ = ["PublicationPlan", "plan_publication", "publish", "records_item", "remembered_items"]
