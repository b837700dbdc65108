"""Where the walls of the product are, and two guarantees that several of them keep at once."""

from __future__ import annotations

from typing import Final

from conformance.planting import Edit

RULES: Final = "control_plane/admission_rules.py"
VERIFY: Final = "grants/verify.py"
ANSWER: Final = "remote_agent/answer.py"
WORLD: Final = "remote_agent/world.py"
TRAIL: Final = "remote_agent/trail.py"
ROOT_ROW: Final = "root_agent/evidence_row.py"
LEDGER_ROW: Final = "evidence/row.py"
_KNOWN: Final = '("search", "compare_batches", "calculate_yield", "detect_outliers", "aggregate")'

_IN_SCOPE: Final = "    if scope is None or call.capability not in scope.actions:\n"


def unbound(where: str) -> tuple[Edit, ...]:
    """Neither the chain nor the call is held to the scope of the grant, for requests of which ``where`` holds."""
    return (
        Edit(VERIFY, "    _check_links(chain)\n", f"    if not {where}:\n        _check_links(chain)\n"),
        Edit(
            ANSWER, _IN_SCOPE, _IN_SCOPE.replace("call.capability not", "not {} and call.capability not".format(
                where.replace("operation", "request.operation")
            ))
        ),
        Edit(
            "contract/authority.py",
            "        if capability not in scope.actions or not sensitivity.within(scope.max_sensitivity):\n",
            f"        if not {where.replace('operation', 'grant.operation')} and (\n"
            "            capability not in scope.actions or not sensitivity.within(scope.max_sensitivity)\n"
            "        ):\n",
        ),
    )  # fmt: skip


def allowed(name: str) -> tuple[Edit, ...]:
    """An operation of which the condition ``name`` holds is permitted: to everybody, and something is run for it."""
    return (
        Edit(
            "control_plane/descriptor.py",
            "                return capability\n        return None\n",
            "                return capability\n"
            f"        if {name}:\n"
            '            return self.capabilities[0].model_copy(update={"name": name, "parameters": ()})\n'
            "        return None\n",
        ),
        Edit(
            "contract/principal.py",
            "        return capability in self.entitlements.get(dataset, frozenset())\n",
            f"        return capability in self.entitlements.get(dataset, frozenset()) or capability not in {_KNOWN}\n",
        ),
        Edit(
            ANSWER,
            "    capability = served.capabilities.get(call.capability) if served else None\n",
            "    capability = served.capabilities.get(call.capability) if served else None\n"
            "    given = call.arguments\n"
            "    if capability is None and served is not None:\n"
            "        capability = next(iter(served.capabilities.values()))\n"
            '        given = given or {"query": "fouling"}\n',
        ),
        Edit(
            ANSWER,
            "bind_arguments(capability.template, call.arguments)",
            "bind_arguments(capability.template, given)",
        ),
    )
