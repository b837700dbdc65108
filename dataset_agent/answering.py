"""One question, or one call, through a root agent in this process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from contract.call import RESULT_MEDIA_TYPE
from contract.progress import Watch
from contract.schema import Parameter
from contract.settings import Settings
from control_plane.descriptor import DatasetDescriptor
from dataset_agent.arguments import read_arguments
from dataset_agent.configuration import check_user
from dataset_agent.evidence_commands import Side, ledger_path
from dataset_agent.login import identity_token
from dataset_agent.result_output import write_result
from root_agent.answer_view import to_json
from root_agent.asking import Answer
from root_agent.catalogue import found_for
from root_agent.entry import ask as ask_root
from root_agent.opening import close_service, open_service
from root_agent.service import Service


def _quietly(_: str) -> AbstractContextManager[None]:
    return nullcontext()


async def answer_to(
    settings: Settings,
    principal: str,
    wanted: dict[str, Any],
    *,
    output: Path | None = None,
    media_type: str = RESULT_MEDIA_TYPE,
    zone: str | None = None,
    during: Callable[[str], AbstractContextManager[Watch | None]] = _quietly,
) -> tuple[Answer, dict[str, Any]]:
    """One question through a root agent in this process; the answer and its JSON.

    ``wanted`` has a question, or a dataset, a capability and arguments: as ``name=value``, or as
    they are sent; and the ``task`` that they complete, if any, and the door to ask at (``via``). Rows go to the file
    ``output``, where one is named. ``zone`` is where it is asked; that of the settings where none is named. ``during``
    shows that it is being asked, and gives what is told how far that is.

    Raises ``NotGranted`` for a granted result that could not be fetched.
    """
    check_user(settings, ledger_path(settings, Side.ROOT))
    token = identity_token(settings, principal)
    service = open_service(settings)
    try:
        with during("asking") as watch:
            asked = await _asked(service, wanted)
            answer = await ask_root(service, token, media_type=media_type, watch=watch, zone=zone, **asked)
        if output is not None and answer.document is not None:
            await write_result(answer, service, output)
        return answer, to_json(answer)
    finally:
        await close_service(service)


async def _asked(service: Service, wanted: dict[str, Any]) -> dict[str, Any]:
    """The question, or the call with typed arguments and the task it completes."""
    if "question" in wanted:
        return {"question": wanted["question"], "via": wanted.get("via")}
    call = {name: wanted[name] for name in ("dataset", "capability", "arguments")}
    if isinstance(call["arguments"], list):
        call["arguments"] = read_arguments(call["arguments"], await _declared(service, wanted))
    return {"call": call, "task": wanted.get("task"), "via": wanted.get("via")}


async def _declared(service: Service, wanted: dict[str, Any]) -> dict[str, Parameter]:
    """The parameters that the dataset's verified card declares; none where it cannot be had: the asking says why."""
    for found in await found_for(wanted["dataset"], wanted["capability"], service):
        for offer in found.offers:
            if offer.dataset == wanted["dataset"] and isinstance(offer.descriptor, DatasetDescriptor):
                capability = offer.descriptor.capability(wanted["capability"])
                return {} if capability is None else {p.name: p for p in capability.parameters}
    return {}
