"""``card``: what a dataset agent says of itself, verified with its pinned key."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Annotated, Any, Final

import typer

from contract.canonical import InvalidJson, parse_json, unb64url
from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from contract.verdict import NotGranted, Reason
from control_plane.descriptor import DatasetDescriptor
from dataset_agent.configuration import load_settings
from dataset_agent.console import AsJson, paragraph, print_json, progress, say
from dataset_agent.pinned import pinned_agent
from delegation.cards import CARD_PATH, CardBook, RemoteCard
from delegation.credentials import Assertions
from delegation.http import open_http
from grants import jose
from grants.key_store import KeyName
from grants.signers import open_signer
from grants.trust import TrustedAgent, load_trust

_INDENT: Final = 4


def card(
    url: Annotated[str | None, typer.Argument(help="The dataset agent's address; default its own.")] = None,
    agent: Annotated[
        str | None, typer.Option(help="The agent's id; default the one that is pinned for the address.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch a card, verify its signature with the agent's pinned key, and show what may be asked."""
    if url is not None:
        url = url.removesuffix(CARD_PATH)
    settings = load_settings(url=url)
    asked, place = _asked(settings, url, agent)
    with progress("fetching the card"):
        found = card_json(settings, asyncio.run(_fetched(settings, asked, place, guessed=agent is None)))
    if as_json:
        print_json(found)
        return
    say(f"{found['name']}: {found['agent_id']} at {found['url']}")
    say(f"Card signature verified with key {found['kid']}")
    for dataset in found["datasets"]:
        say("")
        say(f"dataset {dataset['dataset']}, version {dataset['version']}, revision {dataset['revision']}")
        for capability in dataset["capabilities"]:
            _show(capability, has_mcp=bool((dataset.get("endpoints") or {}).get("mcp")))
    if not found["datasets"]:
        say("It publishes no dataset.")


def _show(capability: dict[str, Any], *, has_mcp: bool) -> None:
    """One capability: what it does, what it takes, its tool where its dataset ``has_mcp``, and a question that means it."""
    sensitivity = capability.get("sensitivity", "internal")
    paragraph(f"{capability['name']} ({capability['effect']}, {sensitivity})", indent=_INDENT // 2)
    told = [_taken(parameter) for parameter in capability.get("parameters", ())]
    told += [
        f"{one['name']}, a period that says {one['from']} and {one['to']} at once"
        for one in capability.get("periods", ())
    ]
    for number, line in enumerate(told or ["nothing"]):
        paragraph(line, first="    takes " if number == 0 else "", indent=_INDENT + len("takes "))
    if has_mcp and capability.get("mcp_tool_name"):
        paragraph(f"over MCP the tool {capability['mcp_tool_name']}", indent=_INDENT)
    for example in capability.get("examples", ())[:1]:
        paragraph(f'ask "{example}"', indent=_INDENT)


def _taken(parameter: dict[str, Any]) -> str:
    """A parameter by its name and type, what it may be, and what it is where it is left out."""
    kind, several = f"{parameter['name']} {parameter['type']}", bool(parameter.get("repeated"))
    if parameter.get("unit"):
        kind += f" in {parameter['unit']}"
    told = [kind]
    if values := parameter.get("values"):
        told.append(f"{'any' if several else 'one'} of {', '.join(values)}")
    elif several:
        told.append("several")
    if parameter.get("pattern"):
        told.append(f"that matches {parameter['pattern']}")
    for end, name in (("minimum", "from"), ("maximum", "up to")):
        if parameter.get(end) is not None:
            told.append(f"{name} {parameter[end]}")
    default = parameter.get("default")
    if default is None and not parameter.get("nullable"):
        return ", ".join(told)
    return f"{', '.join(told)}; else {_left_out(default)}"


def _left_out(default: Any) -> str:
    if isinstance(default, list):
        return ", ".join(map(str, default)) or "none"
    return "NULL" if default is None else str(default) if isinstance(default, str) else json.dumps(default)


def _asked(settings: Settings, url: str | None, agent_id: str | None) -> tuple[TrustedAgent, str]:
    """Whose card, and where: an address alone is that of the agent the trust file has it for."""
    if agent_id is None:
        agent_id = settings.agent_id if url is None else _pinned_at(settings, url)
    agent = pinned_agent(settings, agent_id)
    return agent, settings.url if url is not None or agent_id == settings.agent_id else agent.url


def _pinned_at(settings: Settings, url: str) -> str:
    """The agent at an address; ``DATASET_AGENT_AGENT_ID``, which may have moved, where it is nobody's."""
    agents = load_trust(settings.trust_path).agents.values()
    there = [agent.id for agent in agents if _is_at(agent, url)]
    if len(there) > 1 and settings.agent_id not in there:
        raise DatasetAgentError(
            Component.COMMAND,
            Category.INVALID_INPUT,
            "command.card.agent",
            f"{settings.trust_path} has {', '.join(there)} at {url}: say which with --agent",
        )
    return there[0] if len(there) == 1 else settings.agent_id


def _is_at(agent: TrustedAgent, url: str) -> bool:
    return agent.url.rstrip("/") == url.rstrip("/")


async def _fetched(settings: Settings, agent: TrustedAgent, url: str, *, guessed: bool) -> RemoteCard:
    try:
        return await verified_card(settings, agent, url)
    except NotGranted as stop:
        if stop.reason is not Reason.REMOTE_CARD_INVALID or not guessed or _is_at(agent, url):
            raise
        why = (
            f"{settings.trust_path} has no agent at {url}, so it was taken for {agent.id}, which is at {agent.url} "
            "there: --agent names another"
        )
        raise NotGranted(stop.reason, f"{stop.message}; {why}") from stop


async def verified_card(settings: Settings, agent: TrustedAgent | None = None, url: str | None = None) -> RemoteCard:
    """The card of an agent; of ``DATASET_AGENT_AGENT_ID`` at ``DATASET_AGENT_URL``. Raises as ``CardBook.card``."""
    agent = agent or pinned_agent(settings, settings.agent_id)
    assertions = Assertions(open_signer(settings, KeyName.ROOT), settings.root_id)
    async with open_http(settings) as http:
        book = CardBook(http, assertions, private_network=settings.private_network, ttl=settings.card_ttl)
        return await book.card(agent, url or settings.url, time.time())


def card_json(settings: Settings, verified: RemoteCard) -> dict[str, Any]:
    """What the public card shows, with the key that proved it."""
    return {
        "name": verified.card.name,
        "agent_id": verified.agent_id,
        "url": verified.url,
        "card_verified": True,
        "kid": _signed_with(pinned_agent(settings, verified.agent_id), verified),
        "datasets": [
            offer.public.to_json() for offer in verified.offers if isinstance(offer.public, DatasetDescriptor)
        ],
    }


def _signed_with(agent: TrustedAgent, verified: RemoteCard) -> str:
    """The accepted key that the verified card's signature names; while it is changed there are two."""
    for signature in verified.card.signatures:
        try:
            header = parse_json(unb64url(signature.protected), limit=jose.MAX_HEADER_BYTES)
        except (InvalidJson, ValueError):  # another signature than the one that was verified
            continue
        named = header.get("kid") if isinstance(header, dict) else None
        if isinstance(named, str) and agent.accepted_key(named) is not None:
            return named
    return agent.key.thumbprint
