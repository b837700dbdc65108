"""Tries by nobody in particular: 401, no row, nothing spent, though the grant beside it is good."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from grants.client import client_assertion
from tests.attacks.attack_world import DOORS, SECOND, STRANGER, Door, Scene, Target
from tests.grants.grants_world import claims_of, forge

EVERY_DOOR = pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
Pretence = Callable[[Target], str]


def told(claims: Mapping[str, Any] | None = None, *, by: str | None = None, **head: Any) -> Pretence:
    """An assertion of the root agent with other claims, another header or by another key."""

    def pretend(target: Target) -> str:
        signer = target.signers[by or target.root_id]
        held = claims_of(target.assertion(target.root_id)) | dict(claims or {})
        made = {"alg": "Ed25519", "typ": "client-authentication+jwt", "kid": signer.public_key.thumbprint} | head
        kept = {name: value for name, value in made.items() if value is not None}
        return "Bearer " + forge({k: v for k, v in held.items() if v is not None}, signer, kept)

    return pretend


def at(**offsets: int) -> Pretence:
    return lambda target: told({name: int(target.now()) + offset for name, offset in offsets.items()})(target)


def plain(text: str) -> Pretence:
    return lambda target: text


def spoiled(change: Callable[[str], str]) -> Pretence:
    return lambda target: f"Bearer {change(target.assertion(target.root_id))}"


def _foreign_audience(target: Target) -> str:
    signer = target.signers[target.root_id]
    return "Bearer " + client_assertion(signer, agent_id=target.root_id, audience=SECOND, now=target.now())


def _a_grant(target: Target) -> str:
    return "Bearer " + Scene(target, DOORS[0]).forge.chain()[0]


def _borrowed_kid(target: Target) -> str:
    signer = target.signers[target.root_id]
    return told(by=STRANGER, kid=signer.public_key.thumbprint)(target)


PRETENCES: dict[str, Pretence] = {
    "nothing": plain(""),
    "another scheme": plain("Basic cm9vdDpyb290"),
    "no token": plain("Bearer "),
    "rubbish": plain("Bearer rubbish"),
    "dots": plain("Bearer " + "." * 5_000),
    "60,000 bytes": plain("Bearer " + "A" * 60_000),
    "not ASCII": plain("Bearer \xe9.\xe9.\xe9"),
    "padding": spoiled(lambda text: text + "="),
    "two assertions in one": spoiled(lambda text: f"{text},{text}"),
    "cut short": spoiled(lambda text: text[:-4]),
    "a stranger's": told(by=STRANGER),
    "a stranger's under a known kid": _borrowed_kid,
    "another agent's key": told(by=SECOND),
    "the issuer's key": lambda target: told(by=target.settings.issuer_url)(target),
    "no kid": told(kid=None),
    "kid as a list": told(kid=["a"]),
    "alg none": told(alg="none"),
    "alg HS256": told(alg="HS256"),
    "alg EdDSA": told(alg="EdDSA"),
    "typ JWT": told(typ="JWT"),
    "typ of a grant": told(typ="execution-grant+jwt"),
    "an embedded key": told(jwk={"kty": "OKP", "crv": "Ed25519", "x": "A" * 43}),
    "a grant": _a_grant,
    "for another agent": _foreign_audience,
    "audience as a list": lambda target: told({"aud": [target.remote_id]})(target),
    "subject of another agent": told({"sub": SECOND}),
    "speaks for another agent": told({"sub": SECOND, "iss": SECOND}),
    "upper case": lambda target: told({"sub": target.root_id.upper(), "iss": target.root_id.upper()})(target),
    "expired": at(iat=-70, exp=-10),
    "61 seconds": at(iat=0, exp=61),
    "ahead": at(iat=30, exp=60),
    "no life": at(iat=0, exp=0),
    "exp as text": told({"exp": "1800000000"}),
    "exp missing": told({"exp": None}),
    "an unknown claim": told({"admin": True}),
    "a principal as text": told({"principal": "u-eng-01"}),
}


@EVERY_DOOR
@pytest.mark.parametrize("pretence", PRETENCES.values(), ids=PRETENCES)
def test_a_try_by_nobody_leaves_nothing(target: Target, door: Door, pretence: Pretence) -> None:
    scene = Scene(target, door)
    before = (target.rows(), target.spends(), target.runs())
    reply = target.post(door, scene.call, (scene.honest,), client=None, authorization=pretence(target))
    assert reply.status == 401
    problem = json.loads(reply.text)
    assert problem["status"] == 401
    assert problem["code"].split(".")[:2] in (["grants", "client"], ["remote_agent", "client"])
    assert (target.rows(), target.spends(), target.runs()) == before


@EVERY_DOOR
def test_two_credentials_are_none(target: Target, door: Door) -> None:
    scene = Scene(target, door)
    before = target.rows()
    good = f"Bearer {target.assertion(target.root_id)}"
    reply = target.post(door, scene.call, (scene.honest,), client=target.root_id, authorization=good)
    assert (reply.status, target.rows()) == (401, before)


@EVERY_DOOR
def test_the_grant_that_nobody_could_use_still_works(target: Target, door: Door) -> None:
    scene = Scene(target, door)
    grant = scene.honest
    for pretence in PRETENCES.values():
        target.post(door, scene.call, (grant,), client=None, authorization=pretence(target))
    assert target.post(door, scene.call, (grant,), client=target.root_id).state == "TASK_STATE_COMPLETED"


@EVERY_DOOR
def test_a_client_that_speaks_for_another_person_is_not_the_grants_client(target: Target, door: Door) -> None:
    scene = Scene(target, door)
    other = (target.settings.issuer_url, "acme", "u-ana-01")
    said = client_assertion(
        target.signers[target.root_id],
        agent_id=target.root_id,
        audience=target.remote_id,
        now=target.now(),
        person=other,
    )
    rows, spends = target.rows(), target.spends()
    reply = target.post(door, scene.call, (scene.honest,), client=None, authorization=f"Bearer {said}")
    assert reply.decision["reason"] == "GRANT_CLIENT_MISMATCH"
    assert (target.rows(), target.spends()) == (rows + 1, spends)


@pytest.mark.parametrize("path", ["/", "/message:send", "/tasks", "/extendedAgentCard", "/metrics/", "/nowhere"])
def test_every_other_route_wants_a_client(target: Target, path: str) -> None:
    for verb in ("GET", "POST", "PUT", "DELETE"):
        reply = target.exchange(verb, path, [("A2A-Version", "1.0")], b"{}")
        assert (reply.status, json.loads(reply.text)["status"]) == (401, 401)
