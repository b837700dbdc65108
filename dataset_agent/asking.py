"""``ask``, ``call``, ``card`` and ``login``: the asking side from a terminal."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from contract.canonical import InvalidJson, parse_json
from contract.errors import Category, Component, DatasetAgentError
from contract.result import ResultDocument
from contract.schema import Parameter, SqlType
from contract.settings import Settings
from control_plane.descriptor import DatasetDescriptor
from control_plane.identity import issue_identity
from control_plane.principals import load_directory
from dataset_agent.console import EXIT_OF, AsJson, err, print_json, say, table
from evidence.artifact import Artifact, write_artifact
from grants.keys import IDENTITY_KEY, FileSigner
from root_agent.answer_view import to_json
from root_agent.asking import Answer
from root_agent.cards import CardBook
from root_agent.entry import ask as ask_root
from root_agent.opening import close_service, open_service
from root_agent.service import Service

As = Annotated[str, typer.Option("--as", help="Ask as this principal, by the development issuer.")]
Save = Annotated[Path | None, typer.Option(help="Save rows and provenance for `provenance verify`.")]


def ask(question: str, as_: As, save: Save = None, as_json: AsJson = False) -> None:
    """Ask in words. The answer is GRANTED with rows, REFUSED or INDETERMINATE."""
    _answer(as_, {"question": question}, save, as_json)


def call(
    capability: str,
    as_: As,
    dataset: Annotated[str, typer.Option(help="The dataset to ask.")],
    arg: Annotated[
        list[str] | None, typer.Option(help="name=value, typed as the card says; name:=JSON. Repeatable.")
    ] = None,
    save: Save = None,
    as_json: AsJson = False,
) -> None:
    """Call one capability with typed arguments."""
    _answer(as_, {"dataset": dataset, "capability": capability, "arguments": list(arg or [])}, save, as_json)


def login(
    as_: As,
    ttl: Annotated[int, typer.Option(min=1, max=86_400, help="Life of the token in seconds.")] = 3_600,
    as_json: AsJson = False,
) -> None:
    """Print a development identity token, for POST /ask of the root agent."""
    token = identity_token(Settings(), as_, ttl)
    if as_json:
        print_json({"token": token, "expires_in": ttl})
    else:
        typer.echo(token)


def card(
    url: Annotated[str | None, typer.Argument(help="The dataset agent; default DATASET_AGENT_URL.")] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch a card, verify its signature with the pinned key, and show what may be asked."""
    settings = Settings() if url is None else Settings(url=url)
    found = asyncio.run(_card(settings))
    if as_json:
        print_json(found)
        return
    say(f"{found['name']}: {found['agent_id']} at {found['url']}. Card signature verified with key {found['kid']}.")
    rows = [
        (d["dataset"], d["version"], d["revision"], c["name"], c["effect"], c.get("sensitivity", "internal"), _shape(c))
        for d in found["datasets"]
        for c in d["capabilities"]
    ]
    columns = ("dataset", "version", "revision", "capability", "effect", "sensitivity", "parameters")
    table("What it offers", columns, rows)


def identity_token(settings: Settings, principal: str, ttl: int = 3_600) -> str:
    """A development token for a principal of the directory. Raises a fault that names the known ones."""
    if not settings.dev_issuer:
        raise DatasetAgentError(
            Component.COMMAND,
            Category.CONFIGURATION,
            "command.login.off",
            "the development issuer is off (DATASET_AGENT_DEV_ISSUER): use your identity provider's token",
        )
    directory = load_directory(settings.datasets / "principals.yaml")
    found = directory.named(principal)
    if found is None:
        known = ", ".join(sorted(directory.by_name))
        raise DatasetAgentError(
            Component.COMMAND,
            Category.INVALID_INPUT,
            "command.principal.unknown",
            f"there is no principal {principal!r}; known: {known}",
        )
    signer = FileSigner.load(settings.issuer_dir / IDENTITY_KEY)
    return issue_identity(
        signer,
        issuer_url=settings.issuer_url,
        subject=found.subject,
        audience=settings.root_id,
        now=time.time(),
        ttl=ttl,
    )


async def answer_to(settings: Settings, principal: str, wanted: dict[str, Any]) -> tuple[Answer, dict[str, Any]]:
    """One question through a root agent in this process; the answer and its JSON."""
    token = identity_token(settings, principal)
    service = open_service(settings)
    try:
        if "arguments" in wanted:
            wanted = wanted | {"arguments": await _arguments(service, wanted)}
            answer = await ask_root(service, token, call=wanted)
        else:
            answer = await ask_root(service, token, question=wanted["question"])
        return answer, to_json(answer)
    finally:
        await close_service(service)


def _answer(principal: str, wanted: dict[str, Any], save: Path | None, as_json: bool) -> None:
    answer, shown = asyncio.run(answer_to(Settings(), principal, wanted))
    if save is not None and answer.document is not None and answer.asking.verified is not None:
        write_artifact(save, Artifact(envelope=dict(answer.asking.verified.envelope), body=answer.document.body))
    if as_json:
        print_json(shown)
    else:
        show(answer, shown)
    raise typer.Exit(EXIT_OF[answer.verdict])


def show(answer: Answer, shown: dict[str, Any]) -> None:
    """The answer for people: rows as a table on standard output, everything else beside it."""
    decision = answer.decision
    policy = f" by {decision.policy_id}" if decision.policy_id else ""
    err.print(f"{decision.verdict} {decision.reason}{policy}: {decision.rationale}", markup=False)
    if answer.document is None:
        for missing in shown["missing"]:
            allowed = f", one of {', '.join(missing['values'])}" if missing["values"] else ""
            err.print(
                f"  missing: {missing['name']} ({missing['type']}{allowed}) {missing['description']}", markup=False
            )
        hint = (shown["remote"] or {}).get("error") or {}
        if hint.get("hint"):
            err.print(f"  next: {hint['hint']}", markup=False)
        return
    result_table(answer.document, f"{shown['dataset']} {shown['dataset_version']} {shown['capability']}")
    cache = shown["cache"]
    err.print(f"cache {cache['outcome']}, as of {cache['as_of']}; provenance verified", markup=False)


def result_table(document: ResultDocument, title: str) -> None:
    result = json.loads(document.body)
    table(title, [column["name"] for column in result["schema"]], result["rows"])


async def _card(settings: Settings) -> dict[str, Any]:
    service = open_service(settings)
    try:
        agent, url = next(pair for pair in service.agents if pair[0].id == settings.agent_id)
        if not isinstance(service.cards, CardBook):
            raise TypeError("the command opens its own card book")
        verified = await service.cards.card(agent, url, service.clock())
        return {
            "name": verified.card.name,
            "agent_id": agent.id,
            "url": url,
            "card_verified": True,
            "kid": agent.key.thumbprint,
            "datasets": [
                offer.public.to_json() for offer in verified.offers if isinstance(offer.public, DatasetDescriptor)
            ],
        }
    finally:
        await close_service(service)


def _shape(capability: dict[str, Any]) -> str:
    return ", ".join(f"{p['name']} {p['type']}" for p in capability.get("parameters", ()))


async def _arguments(service: Service, wanted: dict[str, Any]) -> dict[str, Any]:
    """``name=value`` pairs as JSON values of the types the verified card declares."""
    declared: dict[str, Parameter] = {}
    for agent, url in service.agents:
        for offer in await service.cards.offers(agent, url, service.clock()):
            if offer.dataset == wanted["dataset"] and isinstance(offer.descriptor, DatasetDescriptor):
                capability = offer.descriptor.capability(wanted["capability"])
                declared |= {p.name: p for p in capability.parameters} if capability else {}
    arguments: dict[str, Any] = {}
    for pair in wanted["arguments"]:
        name, value = _pair(pair, declared)
        if name in arguments:
            raise _bad(f"--arg {name} is given twice")
        arguments[name] = value
    return arguments


def _pair(pair: str, declared: dict[str, Parameter]) -> tuple[str, Any]:
    name, equals, text = pair.partition("=")
    if not equals or not name.rstrip(":"):
        raise _bad("--arg takes name=value, or name:=JSON")
    if name.endswith(":"):
        try:
            return name[:-1], parse_json(text.encode(), limit=64 * 1024)
        except InvalidJson as error:
            raise _bad(f"--arg {name[:-1]}: {error}") from error
    parameter = declared.get(name)
    if parameter is not None and parameter.repeated:
        return name, [_typed(item, parameter) for item in text.split(",")] if text else []
    return name, text if parameter is None else _typed(text, parameter)


def _typed(text: str, parameter: Parameter) -> Any:
    """The text as the parameter's JSON type where it reads as one; the agent judges the rest."""
    try:
        if parameter.type is SqlType.INT64:
            return int(text)
        if parameter.type is SqlType.FLOAT64:
            return float(text)
    except ValueError:
        return text
    if parameter.type is SqlType.BOOL and text.lower() in ("true", "false"):
        return text.lower() == "true"
    return text


def _bad(message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.COMMAND, Category.INVALID_INPUT, "command.argument", message)
