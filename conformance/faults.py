"""The kit's 19 faults in this product: what each takes away, at every place that would hold without the others.

A fault is texts of the tree and what stands in their place. Each text is there exactly once, so a fault that
does not fit the tree any more is told and never skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from conformance.planting import Edit, Fault
from conformance.walls import LEDGER_ROW, ROOT_ROW, RULES, TRAIL, VERIFY, WORLD, allowed, unbound

FAULTS: Final = (
    Fault(
        "descriptor-not-validated",
        "AD-001",
        "what a malformed descriptor lacks is made up where it is read; admission takes an invalid one",
        (
            Edit(
                "control_plane/registry.py",
                "    raw, dataset = document.value, folder.name\n",
                "    raw, dataset = document.value, folder.name\n"
                '    if isinstance(raw, dict) and not raw.get("capabilities"):\n'
                '        (folder / "made.csv").write_text("text\\nmade\\n")\n'
                '        table = {"name": "made", "file": "made.csv", "columns": [{"name": "text", "type": "STRING"}]}\n'
                '        operation = {"name": "search", "description": "made up", "effect": "read", "mcp_tool_name": "x"}\n'
                '        operation["results"] = [{"name": "text", "type": "STRING"}]\n'
                '        made = {"tenant": "acme", "revision": "1", "schema_version": "1", "as_of": "2026-01-01T00:00:00Z"}\n'
                '        made |= {"provenance": {"system": "volume", "source": "s3"}, "tables": [table], "freshness": {"maximum_age_s": 1}}\n'
                '        raw = {"capabilities": [operation], **made, **raw}\n',
            ),
            Edit(RULES, "    if isinstance(request.descriptor, InvalidDataset):\n", "    if False:\n"),
        ),
    ),
    Fault(
        "advertised-means-implemented",
        "AD-002",
        "a capability without a template is served by one that is made up",
        (
            Edit(WORLD, " for c in manifest.capabilities if c.template}", " for c in manifest.capabilities}"),
            Edit(
                WORLD,
                '    name = f"{folder.name}/{capability.template}"\n',
                "    if not capability.template:\n"
                '        return "SELECT MAX(batch_id) AS answer FROM batch_record"\n'
                '    name = f"{folder.name}/{capability.template}"\n',
            ),
        ),
    ),
    Fault(
        "executes-without-a-grant",
        "AD-003",
        "nothing of a presented grant is checked but who signed it",
        (
            Edit(
                VERIFY,
                """    _check_times(chain, now)
    _check_issuer(chain.root, issuer)
    _check_links(chain)
    _check_receiver(chain.leaf, audience, client)
    _check_holders(chain, trust)
    _check_operation(chain.leaf, operation)
    _check_policy_version(chain.root, trust)
""",
                "",
            ),
        ),
    ),
    Fault(
        "expired-tokens-accepted",
        "AD-003",
        "the expiry of a token is not checked",
        (Edit(VERIFY, "        if now >= claims.exp + SKEW:\n", "        if False:\n"),),
    ),
    Fault(
        "stale-grants-accepted",
        "AD-003",
        "the revision of a grant is not held against the data's",
        (Edit(RULES, "    if request.stated_revision not in (None, descriptor.revision):\n", "    if False:\n"),),
    ),
    Fault(
        "refusal-still-mints-authority",
        "AD-004",
        "the root agent plans what it refused, and its issuer mints for a decision that is not GRANTED",
        (
            Edit(
                "root_agent/ask.py",
                "        return replace(asking, admitted=decision, stop=decision)\n",
                "        refused = replace(asking, admitted=decision, stop=decision)\n"
                "        if target.agent_id is None or decision.verdict is not Verdict.REFUSED:\n"
                "            return refused\n"
                "        try:\n"
                "            return await plan(refused, service)\n"
                "        except NotGranted:\n"
                "            return refused\n",
            ),
            Edit("grants/mint.py", "    if decision.verdict is not Verdict.GRANTED:\n", "    if False:\n"),
        ),
    ),
    Fault(
        "clearance-ignored",
        "AD-004",
        "admission reads no clearance, and the issuer mints above it",
        (
            Edit(RULES, "    if not sensitivity.within(clearance):\n", "    if False:\n"),
            Edit(
                "root_agent/hops.py",
                "max_sensitivity=min(hop.capability.sensitivity, principal.clearance, key=lambda level: level.rank),",
                "max_sensitivity=hop.capability.sensitivity,",
            ),
            Edit(
                "grants/mint.py", "    if not scope.max_sensitivity.within(principal.clearance):\n", "    if False:\n"
            ),
        ),
    ),
    Fault(
        "indeterminate-becomes-refusal",
        "AD-005",
        "an evaluator that does not answer counts as one that said no",
        (
            Edit(
                "contract/verdict.py",
                "        Reason.EVALUATOR_UNAVAILABLE,\n        Reason.EVALUATOR_TIMEOUT,\n        Reason.MISSING_PRINCIPAL",
                "        Reason.MISSING_PRINCIPAL",
            ),
        ),
    ),
    Fault(
        "default-allow",
        "AD-006",
        "an operation that nobody advertises is registered, held by everybody and answered by the first template",
        allowed("True"),
    ),
    Fault(
        "delegation-widens-scope",
        "AD-007",
        "a leaf may be wider than its parent, and a call wider than its leaf",
        unbound("operation.method"),
    ),
    Fault(
        "cache-ignores-principal",
        "AD-008",
        "the class of the principal is in no partition",
        (Edit("cache/partition.py", "        principal.principal_class,\n", '        "",\n'),),
    ),
    Fault(
        "cache-ignores-revision",
        "AD-008",
        "the revision of the data is in no partition",
        (Edit("cache/partition.py", "        authority.revision,\n", '        "",\n'),),
    ),
    Fault(
        "evidence-omits-principal",
        "AD-009",
        "neither ledger says who was acting",
        (
            Edit(ROOT_ROW, "principal_class=principal.principal_class if principal else None", "principal_class=None"),
            Edit(
                LEDGER_ROW,
                '            "principal_class": principal_class,\n',
                '            "principal_class": None,\n',
            ),
        ),
    ),
    Fault(
        "refusal-leaves-no-evidence",
        "AD-010",
        "neither agent writes a row of what it refused",
        (
            Edit(
                "root_agent/ask.py",
                "    asking = await take(record_evidence, asking, service)\n    return await explain_response(asking, service)\n",
                "    if asking.verdict is not Verdict.REFUSED:\n"
                "        asking = await take(record_evidence, asking, service)\n"
                "    return await explain_response(asking, service)\n",
            ),
            Edit(
                "remote_agent/accounting.py",
                "    if trail.recorded:\n",
                "    if trail.decision.verdict is Verdict.REFUSED:\n"
                "        return Answer(decision=trail.decision, grant=trail.grant)\n"
                "    if trail.recorded:\n",
            ),
            Edit(
                "remote_agent/accounting.py", "from contract.verdict import ", "from contract.verdict import Verdict, "
            ),
        ),
    ),
    Fault(
        "evidence-omits-revision",
        "AD-011",
        "neither ledger says which data were used, and no row has to",
        (
            Edit(
                ROOT_ROW, "        revision=descriptor.revision if descriptor else None,\n", "        revision=None,\n"
            ),
            Edit(TRAIL, '            "revision": descriptor.revision,\n', '            "revision": None,\n'),
            Edit(LEDGER_ROW, "resolved = (self.dataset_version, self.revision, ", "resolved = (self.dataset_version, "),
        ),
    ),
    Fault(
        "evidence-omits-policy-version",
        "AD-012",
        "neither ledger says which rules applied",
        (
            Edit(
                LEDGER_ROW,
                '            "policy_version": decision.policy_version or None,\n',
                '            "policy_version": None,\n',
            ),
        ),
    ),
    Fault(
        "remote-delegation-unchecked",
        "AD-013",
        "the same at the MCP door alone",
        unbound('operation.method == "CallTool"'),
    ),
    Fault(
        "handoff-unchecked",
        "AD-014",
        "the same over A2A alone",
        unbound('operation.method != "CallTool"'),
    ),
    Fault(
        "prohibitions-ignored",
        "AD-015",
        "what a descriptor prohibits is registered, held by everybody and answered by the first template",
        (
            Edit(
                RULES,
                "    if isinstance(descriptor, DatasetDescriptor) and request.capability in descriptor.prohibited:\n",
                "    if False:\n",
            ),
            *allowed("name in self.prohibited"),
        ),
    ),
)
BY_NAME: Final[Mapping[str, Fault]] = {fault.name: fault for fault in FAULTS}
