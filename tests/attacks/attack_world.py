"""A served agent with engines and spends counted, and the honest grant that an attack deforms.

The grant of a ``Scene`` has two details: the dataset that is asked, which this agent may
serve, and another one that only a second agent may serve.
"""

from __future__ import annotations

import base64
import copy
import http.client
import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from contract.call import Operation, encode_call
from contract.canonical import sha256_hex
from contract.extension import DECISION_KEY, ERROR_KEY, EXTENSION_URI, GRANT_HEADER
from contract.ids import new_id
from contract.scope import Sensitivity, parse_rows
from grants.client import client_assertion
from grants.derive import derive
from grants.key_files import FileSigner
from grants.state import STATE_FILE
from grants.trust import Trust, TrustedAgent, TrustedIssuer
from grants.trust_editor import edit_trust
from tests.engine_taps import count_all
from tests.grants.grants_world import Edit, Forge, claims_of, forge, par_hash
from tests.running_agent import Asker, RunningAgent, agent_home, running_agent

DATASET: Final = "purification-batches"
CAPABILITY: Final = "calculate_yield"
ARGUMENTS: Final = {"batch_id": "B001"}
ELSEWHERE: Final = "chromatography-results"
SECOND: Final = "urn:dataset-agent:second"
THIRD: Final = "urn:dataset-agent:third"
OTHER_ISSUER: Final = "https://other-issuer.example"
SITES: Final = ("Dublin", "Singapore")
POLICY_VERSION: Final = "2026.09.01"


@dataclass(frozen=True)
class Door:
    """One way in: a binding and a method."""

    name: str
    path: str
    method: str
    rpc: bool

    def body(self, message: Mapping[str, Any]) -> bytes:
        params = {"message": message}
        wrapped = {"jsonrpc": "2.0", "id": 1, "method": self.method, "params": params} if self.rpc else params
        return json.dumps(wrapped).encode()


DOORS: Final = (
    Door("json-rpc", "/", "SendMessage", True),
    Door("json-rpc stream", "/", "SendStreamingMessage", True),
    Door("http+json", "/message:send", "SendMessage", False),
    Door("http+json stream", "/message:stream", "SendStreamingMessage", False),
)


@dataclass(frozen=True)
class Reply:
    """What came back. ``task`` is the task, or the final status event of a stream."""

    status: int
    text: str

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        lines = [line[5:] for line in self.text.splitlines() if line.startswith("data:")]
        raw = [json.loads(line) for line in lines or [self.text]]
        return [dict(event.get("result", event)) for event in raw]

    @property
    def task(self) -> dict[str, Any]:
        last = self.events[-1]
        return dict(last.get("task") or last["statusUpdate"])

    @property
    def state(self) -> str:
        return str(self.task["status"]["state"])

    @property
    def decision(self) -> dict[str, Any]:
        return dict(self.task["metadata"][DECISION_KEY])

    @property
    def error(self) -> dict[str, Any]:
        return dict(self.task["metadata"][ERROR_KEY])

    @property
    def shown(self) -> list[str]:
        """The names of the artifacts."""
        held = [artifact for event in self.events for artifact in event.get("task", {}).get("artifacts", [])]
        held += [event["artifactUpdate"]["artifact"] for event in self.events if "artifactUpdate" in event]
        return [str(artifact["name"]) for artifact in held]


class Target:
    """The agent under attack, as its attacker and its operator see it."""

    def __init__(self, agent: RunningAgent, signers: Mapping[str, FileSigner], runs: list[str] | None = None) -> None:
        self.agent = agent
        self.settings = agent.settings
        self.signers = signers
        self.asker = Asker(agent.settings, agent.url)
        self._runs = [] if runs is None else runs
        self._line: http.client.HTTPConnection | None = None
        self._assertions: dict[str, tuple[float, str]] = {}

    @property
    def root_id(self) -> str:
        return self.settings.root_id

    @property
    def remote_id(self) -> str:
        return self.settings.agent_id

    @property
    def issuer(self) -> FileSigner:
        return self.signers[self.settings.issuer_url]

    def pinned(self, agent_id: str) -> TrustedAgent:
        return self.agent.lifecycle.service.trust.agents[agent_id]

    @cached_property
    def granted(self) -> dict[str, Any]:
        """The claims of a root token with two details: the dataset that is asked comes second."""
        capability = self.agent.lifecycle.service.world.datasets[DATASET].capabilities[CAPABILITY]
        asked = self.asker.scope(
            DATASET,
            CAPABILITY,
            "search",
            locations=frozenset({self.remote_id, SECOND, THIRD}),
            max_sensitivity=Sensitivity.INTERNAL,
            columns=capability.template.columns_read | {"batch_record.site"},
            constraints=parse_rows({"batch_record.site": {"one_of": list(SITES)}}),
        )
        other = self.asker.scope(ELSEWHERE, "search", locations=frozenset({SECOND}))
        claims, spare = (claims_of(self.asker.root_token(scope)) for scope in (asked, other))
        claims["authorization_details"] = spare["authorization_details"] + claims["authorization_details"]
        return claims

    @contextmanager
    def trusting(self, **changes: Any) -> Iterator[Trust]:
        """The agent believes another trust file while this lasts."""
        service = self.agent.lifecycle.service
        kept = service.trust
        service.trust = replace(kept, **changes)
        try:
            yield service.trust
        finally:
            service.trust = kept

    def now(self) -> float:
        """The instant at the agent, by its own clock."""
        return self.agent.lifecycle.service.clock()

    def advance(self, seconds: float) -> None:
        """Put the agent's clock forward, never back; what was signed before is older by so much."""
        ahead = self.now() - time.time() + seconds
        self.agent.lifecycle.service.clock = lambda: time.time() + ahead

    def runs(self) -> int:
        """Engine runs so far."""
        return len(self._runs)

    def rows(self) -> int:
        """Ledger rows so far."""
        return int(self.agent.lifecycle.service.ledger.size)

    def row(self, index: int) -> dict[str, Any]:
        entry = self.agent.lifecycle.service.ledger.get(index)
        assert entry is not None
        return dict(entry.cells)

    def spends(self) -> int:
        """Leaves in the memory of spent ones."""
        connection = sqlite3.connect(self.settings.home / STATE_FILE)
        try:
            return int(connection.execute("SELECT count(*) FROM spent").fetchone()[0])
        finally:
            connection.close()

    def assertion(self, agent_id: str) -> str:
        """A client assertion of ``agent_id``, signed anew every 20 seconds."""
        now = self.now()
        held = self._assertions.get(agent_id)
        if held is None or now - held[0] > 20:
            signed = client_assertion(self.signers[agent_id], agent_id=agent_id, audience=self.remote_id, now=now)
            held = self._assertions[agent_id] = (now, signed)
        return held[1]

    def post(
        self,
        door: Door,
        call: bytes,
        grants: Sequence[str | bytes],
        *,
        client: str | None,
        parts: Sequence[Mapping[str, Any]] | None = None,
        authorization: str | None = None,
    ) -> Reply:
        """Send one message; ``client`` is who authenticates, ``None`` for nobody."""
        part = {"raw": base64.b64encode(call).decode(), "mediaType": "application/json"}
        message = {"messageId": new_id("msg"), "role": "ROLE_USER", "parts": list(parts or [part])}
        lines: list[tuple[str, str | bytes]] = [
            ("Content-Type", "application/json"),
            ("A2A-Version", "1.0"),
            ("A2A-Extensions", EXTENSION_URI),
            *((GRANT_HEADER, grant) for grant in grants),
        ]
        if client is not None:
            lines.append(("Authorization", f"Bearer {self.assertion(client)}"))
        if authorization is not None:
            lines.append(("Authorization", authorization))
        return self.exchange("POST", door.path, lines, door.body(message))

    def exchange(self, verb: str, path: str, lines: Sequence[tuple[str, str | bytes]], body: bytes) -> Reply:
        """One request on a line that is kept."""
        if self._line is None:
            host = self.agent.url.removeprefix("http://")
            self._line = http.client.HTTPConnection(host, timeout=30)
        line = self._line
        line.putrequest(verb, path, skip_accept_encoding=True)
        for name, value in (*lines, ("Content-Length", str(len(body)))):
            line.putheader(name, value)
        line.endheaders(body)
        response = line.getresponse()
        text = response.read().decode()
        if response.will_close:
            self.hang_up()
        return Reply(response.status, text)

    def hang_up(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None


@dataclass(frozen=True)
class Attempt:
    """What an attacker sends, and the honest grant that must work afterwards (``None``: no such grant).

    ``honest_client`` sends that one; ``None`` where it is ``client`` too.
    """

    grants: tuple[str | bytes, ...]
    call: bytes
    client: str
    honest: str | None = None
    honest_client: str | None = None
    parts: tuple[Mapping[str, Any], ...] | None = None


@dataclass
class Scene:
    """An honest grant for one call through one door: two tokens that verify unless an attack edits them.

    ``lean`` leaves out what makes a long chain larger than a header may be: 1 the columns, 2 the
    other detail too. ``age`` is how many seconds ago both tokens were signed.
    """

    target: Target
    door: Door
    call: bytes = field(default_factory=lambda: encode_call(DATASET, CAPABILITY, ARGUMENTS))
    lean: int = 0
    age: float = 0.0
    now: float = field(init=False)

    def __post_init__(self) -> None:
        self.now = self.target.now() - self.age

    @property
    def operation(self) -> Operation:
        return self.bound_to(self.call)

    def bound_to(self, call: bytes) -> Operation:
        return Operation(self.door.method, call_hash=sha256_hex(call))

    @cached_property
    def forge(self) -> Forge:
        target = self.target
        issued = int(self.now)
        root = copy.deepcopy(target.granted)
        root.update(jti=new_id("j")[:20], txn=new_id("t")[:20], iat=issued, nbf=issued, exp=issued + 300)
        if self.lean:
            del root["authorization_details"][-1]["columns"]
        if self.lean > 1:
            del root["authorization_details"][0]
        head = {"alg": "Ed25519", "typ": "execution-grant+jwt", "kid": target.issuer.public_key.thumbprint}
        first = forge(root, target.issuer, head)
        leaf = claims_of(self.derived((first,), target.root_id, target.remote_id)[-1])
        return Forge(
            root=root, leaf=leaf, root_head=head, root_signer=target.issuer, leaf_signer=target.signers[target.root_id]
        )

    def derived(
        self, chain: tuple[str, ...], holder: str, receiver: str, operation: Operation | None = None, **changes: Any
    ) -> tuple[str, ...]:
        return derive(
            chain,
            self.target.signers[holder],
            audience=self.target.pinned(receiver),
            operation=operation or self.operation,
            now=self.now,
            **changes,
        )

    def chain(self, *hops: str) -> tuple[str, ...]:
        """An honest chain through ``hops``, which end in this agent."""
        chain: tuple[str, ...] = (self.forge.chain()[0],)
        for holder, receiver in zip((self.target.root_id, *hops), hops, strict=False):
            chain = self.derived(chain, holder, receiver)
        return chain

    @property
    def honest(self) -> str:
        """The grant that the attack deforms; its leaf has the same ``jti``."""
        return ",".join(self.forge.chain())

    def attempt(self, *grants: str | bytes, **changes: Any) -> Attempt:
        members: dict[str, Any] = {"call": self.call, "client": self.target.root_id, "honest": self.honest}
        return Attempt(grants, **(members | changes))

    def edited(self, *, root: Edit | None = None, leaf: Edit | None = None, both: Edit | None = None) -> Attempt:
        """The two tokens with claims edited and then signed by their true holders."""
        return self.attempt(",".join(self.forge.chain(edit_root=both or root, edit_leaf=both or leaf)))

    def with_world(self, **changes: Any) -> Attempt:
        """The two tokens with another header or another signer, by the members of ``Forge``."""
        return self.attempt(",".join(replace(self.forge, **changes).chain()))

    def resigned(self, tokens: Sequence[str], edits: Mapping[int, Edit], signers: Sequence[FileSigner]) -> str:
        """A chain with the claims at some places edited; each token is signed again and ``par_hash`` follows."""
        made: list[str] = []
        for place, token in enumerate(tokens):
            claims = copy.deepcopy(claims_of(token))
            if made:
                claims["par_hash"] = par_hash(made[-1])
            if place in edits:
                edits[place](claims)
            head = self.forge.leaf_head if place else self.forge.root_head
            made.append(forge(claims, signers[place], head))
        return ",".join(made)


@contextmanager
def served(folder: Path) -> Iterator[Target]:
    """An agent that trusts a second issuer and two more agents, and runs every granted call."""
    settings = agent_home(folder, cache_enabled=False)
    signers = {
        settings.issuer_url: FileSigner.load(settings.issuer_dir / "grant.jwk"),
        settings.root_id: FileSigner.load(settings.root_dir / "holder.jwk"),
        settings.agent_id: FileSigner.load(settings.remote_dir / "agent.jwk"),
        **{name: FileSigner.generate(folder / f"made-{n}" / "key.jwk") for n, name in enumerate(MADE)},
    }
    with edit_trust(settings.trust_path) as editor:
        for name in (SECOND, THIRD):
            editor.enter_agent(name, "http://127.0.0.1:9", signers[name].public_key, withdraw=False)
        other = TrustedIssuer(OTHER_ISSUER, (signers[OTHER_ISSUER].public_key,), (), frozenset({"other"}), "x-")
        issuers = {**editor.trust.issuers, OTHER_ISSUER: other}
        editor.trust = replace(editor.trust, issuers=issuers, policy_versions=frozenset({POLICY_VERSION}))
    runs: list[str] = []
    undo = count_all(lambda: runs.append("run"))
    try:
        with running_agent(settings) as agent:
            target = Target(agent, signers, runs)
            try:
                yield target
            finally:
                target.hang_up()
    finally:
        undo()


STRANGER: Final = "urn:dataset-agent:stranger"
MADE: Final = (OTHER_ISSUER, SECOND, THIRD, STRANGER)
