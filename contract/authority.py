"""What may be done: the one value that finding, running and sealing ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass

from contract.grant import VerifiedGrant
from contract.principal import Principal
from contract.scope import Mask, RowConstraints, Scope, ScopeError, Sensitivity, meet_columns, meet_rows
from contract.verdict import Decision, NotGranted, Reason, Verdict

_AUTHORIZED = object()


@dataclass(frozen=True, slots=True)
class Authority:
    """The narrowest of a verified grant and this service's own GRANTED decision.

    ``Authority.of`` is the only constructor; there is no path to one from a refusal.
    ``scope`` is the grant's scope that covers the call. ``columns`` is ``None`` for every column;
    rows, columns and masks are keyed ``table.column``.
    """

    grant: VerifiedGrant
    decision: Decision
    principal: Principal
    scope: Scope
    dataset: str
    dataset_version: str
    revision: str
    schema_version: str
    capability: str
    sensitivity: Sensitivity
    rows: RowConstraints
    columns: frozenset[str] | None
    masks: Mapping[str, Mask]
    proof: InitVar[object]

    def __post_init__(self, proof: object) -> None:
        if proof is not _AUTHORIZED:
            raise TypeError("an Authority comes from Authority.of only")

    @classmethod
    def of(
        cls,
        grant: VerifiedGrant,
        decision: Decision,
        principal: Principal,
        *,
        scope: Scope,
        capability: str,
        schema_version: str,
        sensitivity: Sensitivity,
    ) -> Authority:
        """From a verified grant and a GRANTED decision about the same principal and capability.

        ``scope`` is the grant's scope that covers the call. Raises ``NotGranted`` where
        the grant does not cover the capability or its sensitivity, or where the two sets of
        constraints cannot hold together.
        """
        if decision.verdict is not Verdict.GRANTED:
            raise NotGranted(decision.reason, decision.rationale, policy_id=decision.policy_id)
        if scope not in grant.scopes or (grant.issuer, grant.subject, grant.tenant) != (
            *principal.key,
            principal.tenant,
        ):
            raise NotGranted(Reason.NO_ACTIVE_GRANT, "the grant authorizes no call of this principal")
        if capability not in scope.actions or not sensitivity.within(scope.max_sensitivity):
            raise NotGranted(Reason.GRANT_WIDENED, "the call would widen the grant")
        try:
            rows = meet_rows(scope.constraints, decision.obligations.rows)
        except ScopeError as error:
            raise NotGranted(Reason.GRANT_WIDENED, f"grant and policy cannot hold together: {error}") from error
        return cls(
            grant=grant,
            decision=decision,
            principal=principal,
            scope=scope,
            dataset=scope.dataset,
            dataset_version=scope.dataset_version,
            revision=scope.revision,
            schema_version=schema_version,
            capability=capability,
            sensitivity=sensitivity,
            rows=rows,
            columns=meet_columns(scope.columns, decision.obligations.columns),
            masks=decision.obligations.masks,
            proof=_AUTHORIZED,
        )
