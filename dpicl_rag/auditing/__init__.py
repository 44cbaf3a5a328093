"""Evidence for the guarantee: exact audits, canaries, extraction attacks, and a report.

For the owner of the documents: audits read them without noise, so what they find is as private as
the documents. Names are imported when first used, so that importing this loads no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpicl_rag._packaged import importing

if TYPE_CHECKING:
    from dpicl_rag.auditing.attacks import (
        AgreementAudit,
        ExtractionAudit,
        audit_agreement,
        audit_extraction,
    )
    from dpicl_rag.auditing.audit_report import AuditFolder, AuditReport
    from dpicl_rag.auditing.canaries import (
        CanaryAudit,
        audit_canary,
        epsilon_lower_bound,
        worst_canary,
    )
    from dpicl_rag.auditing.channels import ChannelAudit, audit_channels
    from dpicl_rag.auditing.near_ties import NearTieAudit, audit_near_ties
    from dpicl_rag.auditing.neighbours import NeighbourAudit, audit_neighbours
    from dpicl_rag.auditing.remembering import RememberingModel
    from dpicl_rag.auditing.subject import Subject
    from dpicl_rag.auditing.worst_models import SyntheticModel, audit_synthetic

__getattr__, __dir__ = importing(__name__)

__all__ = [
    "AgreementAudit",
    "AuditFolder",
    "AuditReport",
    "CanaryAudit",
    "ChannelAudit",
    "ExtractionAudit",
    "NearTieAudit",
    "NeighbourAudit",
    "RememberingModel",
    "Subject",
    "SyntheticModel",
    "audit_agreement",
    "audit_canary",
    "audit_channels",
    "audit_extraction",
    "audit_near_ties",
    "audit_neighbours",
    "audit_synthetic",
    "epsilon_lower_bound",
    "worst_canary",
]
