"""How an attacker deforms an honest grant: edits of claims, of protected headers, of the text, of chains."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from contract.call import encode_call
from contract.canonical import b64url, unb64url
from grants.derive import derive
from grants.mint import mint_discovery
from tests.attacks.attack_world import CAPABILITY, ELSEWHERE, OTHER_ISSUER, SECOND, STRANGER, THIRD, Attempt, Scene
from tests.grants.grants_world import Edit
from tests.grants.grants_world import forge as sign

Forging = Callable[[Scene], Attempt]

# how claims are edited


def put(**members: Any) -> Edit:
    return lambda claims: claims.update(members)


def drop(member: str) -> Edit:
    return lambda claims: claims.pop(member)


def inside(member: str, **members: Any) -> Edit:
    return lambda claims: claims[member].update(members)


def asked(**members: Any) -> Edit:
    """The detail of the dataset that is asked."""
    return lambda claims: claims["authorization_details"][-1].update(members)


def other(**members: Any) -> Edit:
    """The detail of the other dataset."""
    return lambda claims: claims["authorization_details"][0].update(members)


def only(member: str) -> Edit:
    """The detail of the dataset that is asked, without a member."""
    return lambda claims: claims["authorization_details"][-1].pop(member)


def constrained(**constraint: Any) -> Edit:
    return asked(constraints={"batch_record.site": constraint})


def cnf(scene: Scene, name: str) -> dict[str, Any]:
    key = scene.target.signers[name].public_key
    return {"jwk": {"kty": "OKP", "crv": "Ed25519", "x": b64url(key.raw)}}


def root(edit: Edit) -> Forging:
    return lambda scene: scene.edited(root=edit)


def leaf(edit: Edit) -> Forging:
    return lambda scene: scene.edited(leaf=edit)


def both(edit: Edit) -> Forging:
    return lambda scene: scene.edited(both=edit)


def headed(place: str, **members: Any) -> Forging:
    def forge(scene: Scene) -> Attempt:
        name = f"{place}_head"
        return scene.with_world(**{name: {**getattr(scene.forge, name), **members}})

    return forge


def unheaded(place: str, member: str) -> Forging:
    def forge(scene: Scene) -> Attempt:
        name = f"{place}_head"
        return scene.with_world(**{name: {k: v for k, v in getattr(scene.forge, name).items() if k != member}})

    return forge


PLACES: Final = ("root", "leaf")


# nothing, or too many


def two_lines(scene: Scene) -> Attempt:
    return scene.attempt(scene.honest, scene.honest)


def two_halves(scene: Scene) -> Attempt:
    return scene.attempt(*scene.honest.split(","))


def discovery(scene: Scene) -> Attempt:
    """A grant that says for whom, and authorizes no call, presented for a call."""
    target = scene.target
    token = mint_discovery(
        target.issuer,
        issuer_url=target.settings.issuer_url,
        principal=target.asker._principal(),
        holder=target.pinned(target.root_id),
        rctx={"trace_id": "t" * 32},
        now=scene.now,
    )
    return scene.attempt(",".join(scene.derived((token,), target.root_id, target.remote_id)))


# algorithm


def hmac_with_the_public_key(scene: Scene) -> Attempt:
    first, second = scene.forge.chain()
    head = b64url(json.dumps({**scene.forge.root_head, "alg": "HS256"}).encode())
    body = first.split(".")[1]
    mac = hmac.new(scene.target.issuer.public_key.raw, f"{head}.{body}".encode(), hashlib.sha512).digest()
    return scene.attempt(f"{head}.{body}.{b64url(mac)},{second}")


def unsigned(place: int) -> Forging:
    """``alg`` none with an empty signature, as some libraries take."""

    def forge(scene: Scene) -> Attempt:
        tokens = list(scene.forge.chain())
        head = dict(scene.forge.leaf_head if place else scene.forge.root_head) | {"alg": "none"}
        tokens[place] = f"{b64url(json.dumps(head).encode())}.{tokens[place].split('.')[1]}."
        return scene.attempt(",".join(tokens))

    return forge


# encoding


def segment(token: int, place: int, change: Callable[[str], str]) -> Forging:
    """One segment of one token spelled otherwise; what was signed stays as it was."""

    def forge(scene: Scene) -> Attempt:
        tokens = list(scene.forge.chain())
        segments = tokens[token].split(".")
        segments[place] = change(segments[place])
        tokens[token] = ".".join(segments)
        return scene.attempt(",".join(tokens))

    return forge


def header(change: Callable[[str], str | bytes]) -> Forging:
    return lambda scene: scene.attempt(change(scene.honest))


def body(change: Callable[[bytes], bytes], token: int = 1) -> Forging:
    """The signed bytes of the claims replaced, and signed by the true holder."""

    def forge(scene: Scene) -> Attempt:
        tokens = list(scene.forge.chain())
        signer, head = (
            (scene.forge.leaf_signer, scene.forge.leaf_head)
            if token
            else (scene.forge.root_signer, scene.forge.root_head)
        )
        tokens[token] = sign(change(unb64url(tokens[token].split(".")[1])), signer, head)
        return scene.attempt(",".join(tokens))

    return forge


def padded(over: int, padding: str) -> Forging:
    """A leaf of ``over`` bytes more than a multiple of three, spelled with padding, and signed so by its holder."""

    def forge(scene: Scene) -> Attempt:
        first, second = scene.forge.chain()
        text = unb64url(second.split(".")[1])
        text += b" " * ((over - len(text)) % 3)
        signing_input = f"{second.split('.')[0]}.{b64url(text)}{padding}"
        signature = b64url(scene.forge.leaf_signer.sign(signing_input.encode()))
        return scene.attempt(f"{first},{signing_input}.{signature}")

    return forge


def other_bits(text: str) -> str:
    """The same bytes with other unused bits in the last character."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return text[:-1] + alphabet[alphabet.index(text[-1]) ^ 1]


def grown_signature(scene: Scene) -> Attempt:
    """The leaf's signature plus the group's order, which verifies under a lax verifier."""
    order = 2**252 + 27742317777372353535851937790883648493
    first, second = scene.forge.chain()
    head, _, signature = second.rpartition(".")
    raw = unb64url(signature)
    grown = (int.from_bytes(raw[32:], "little") + order).to_bytes(32, "little")
    return scene.attempt(f"{first},{head}.{b64url(raw[:32] + grown)}")


def changed_claim(place: int) -> Forging:
    def forge(scene: Scene) -> Attempt:
        tokens = list(scene.forge.chain())
        head, claims, signature = tokens[place].split(".")
        changed = json.loads(unb64url(claims)) | {"jti": "another"}
        tokens[place] = f"{head}.{b64url(json.dumps(changed).encode())}.{signature}"
        return scene.attempt(",".join(tokens))

    return forge


# time


def later(place: str, **offsets: int) -> Forging:
    """Instants moved to an offset from now."""

    def forge(scene: Scene) -> Attempt:
        at = int(scene.now)
        return scene.edited(**{place: put(**{name: at + offset for name, offset in offsets.items()})})

    return forge


# audience, identity


def at_another_agent(scene: Scene) -> Attempt:
    """An honest grant for the second agent, presented here."""
    target = scene.target
    chain = scene.derived((scene.forge.chain()[0],), target.root_id, SECOND)
    return scene.attempt(",".join(chain))


def audience(change: Callable[[Scene], Any]) -> Forging:
    return lambda scene: scene.edited(leaf=put(aud=change(scene)))


def sent_by_another(scene: Scene) -> Attempt:
    return scene.attempt(scene.honest, client=SECOND, honest_client=scene.target.root_id)


def stolen_key(scene: Scene) -> Attempt:
    """A root token for the known root agent with a stranger's key, and a leaf by that stranger."""
    stranger = scene.target.signers[STRANGER]
    chain = replace(scene.forge, leaf_signer=stranger).chain(
        edit_root=put(cnf=cnf(scene, STRANGER)), edit_leaf=put(iss=stranger.public_key.thumbprint_uri)
    )
    return scene.attempt(",".join(chain))


def another_issuer(edit: Edit | None = None) -> Forging:
    """Signed by the other trusted issuer under its own key."""

    def forge(scene: Scene) -> Attempt:
        signer = scene.target.signers[OTHER_ISSUER]
        head = {**scene.forge.root_head, "kid": signer.public_key.thumbprint}
        world = replace(scene.forge, root_signer=signer, root_head=head)
        return scene.attempt(",".join(world.chain(edit_root=edit, edit_leaf=edit and only_subject(edit))))

    return forge


def only_subject(edit: Edit) -> Edit:
    """The edits of a root token that a leaf repeats."""

    def applied(claims: dict[str, Any]) -> None:
        kept = {name: claims[name] for name in ("iss", "act")}
        edit(claims)
        claims.update(kept)

    return applied


def as_issuer(**members: Any) -> Edit:
    return put(iss=OTHER_ISSUER, act={"sub": OTHER_ISSUER}, **members)


def everywhere(claims: dict[str, Any]) -> None:
    claims["tctx"]["tenant"] = "other"


# narrowing


def added(detail: dict[str, Any]) -> Edit:
    return lambda claims: claims["authorization_details"].append(claims["authorization_details"][-1] | detail)


def nine(claims: dict[str, Any]) -> None:
    small = {
        "type": "dataset-access:v1",
        "locations": [SECOND],
        "dataset_version": "1",
        "revision": "r",
        "actions": ["a"],
        "max_sensitivity": "public",
    }
    claims["authorization_details"] = [small | {"identifier": f"d{n}"} for n in range(9)]


def small(forging: Forging) -> Forging:
    """The same of a grant that is smaller, so that what is added to it fits into a header."""
    return lambda scene: forging(replace(scene, lean=1))


def without_asked(claims: dict[str, Any]) -> None:
    del claims["authorization_details"][-1]


def not_here(claims: dict[str, Any]) -> None:
    claims["authorization_details"][-1]["locations"] = [SECOND]


def for_elsewhere(scene: Scene) -> Attempt:
    """A call on the dataset whose detail is for another agent, with a leaf bound to it."""
    call = encode_call(ELSEWHERE, "search", {"query": "a"})
    leaf_claims = put(op=scene.bound_to(call).to_json())
    return scene.attempt(",".join(scene.forge.chain(edit_leaf=leaf_claims)), call=call)


def with_own_location(scene: Scene) -> Attempt:
    """The same, the leaf putting this agent among the locations of that detail."""
    call = encode_call(ELSEWHERE, "search", {"query": "a"})

    def edit(claims: dict[str, Any]) -> None:
        claims["op"] = scene.bound_to(call).to_json()
        claims["authorization_details"][0]["locations"] = [SECOND, scene.target.remote_id]

    return scene.attempt(",".join(scene.forge.chain(edit_leaf=edit)), call=call)


def beside_it(claims: dict[str, Any]) -> None:
    """The other dataset's rights moved to the dataset that is asked."""
    claims["authorization_details"][-1]["actions"] = ["aggregate", CAPABILITY, "search"]


# chains


def long(change: Callable[[Scene, tuple[str, ...]], str], *hops: str) -> Forging:
    """An honest chain over other agents, deformed; it is sent by the last of them, whose honest chain must work."""
    through = hops or (SECOND,)

    def forge(scene: Scene) -> Attempt:
        scene = replace(scene, lean=len(through))
        chain = scene.chain(*through, scene.target.remote_id)
        return scene.attempt(change(scene, chain), client=through[-1], honest=",".join(chain))

    return forge


def resigned(edits: dict[int, Edit], *hops: str) -> Forging:
    """The claims at some depths edited, every token signed by its true holder."""
    through = hops or (SECOND,)

    def change(scene: Scene, chain: tuple[str, ...]) -> str:
        signers = scene.target.signers
        names = (scene.target.settings.issuer_url, scene.target.root_id, *through)
        return scene.resigned(chain, edits, [signers[name] for name in names])

    return long(change, *through)


def orphan(scene: Scene) -> Attempt:
    return scene.attempt(scene.forge.chain()[1])


def alone(scene: Scene) -> Attempt:
    return scene.attempt(scene.forge.chain()[0])


def spliced(scene: Scene) -> Attempt:
    """The leaf of one grant under the root token of another."""
    fresh = Scene(scene.target, scene.door)
    return scene.attempt(f"{fresh.forge.chain()[0]},{scene.forge.chain()[1]}")


def spliced_middle(scene: Scene, chain: tuple[str, ...]) -> str:
    fresh = replace(scene).chain(SECOND, scene.target.remote_id)
    return ",".join((chain[0], fresh[1], chain[2]))


def by_a_thief(scene: Scene, chain: tuple[str, ...]) -> str:
    """A leaf under a grant that was for the second agent, signed by a third."""
    made = derive(
        chain[:2],
        scene.target.signers[SECOND],
        audience=scene.target.pinned(scene.target.remote_id),
        operation=scene.operation,
        now=scene.now,
    )
    return scene.resigned(
        made,
        {2: put(iss=scene.target.signers[THIRD].public_key.thumbprint_uri)},
        [scene.target.issuer, scene.target.signers[scene.target.root_id], scene.target.signers[THIRD]],
    )


def prefix(scene: Scene) -> Attempt:
    """The first two tokens of a longer chain, by the agent that derived the second."""
    attempt = long(lambda _, chain: ",".join(chain[:2]))(scene)
    return replace(attempt, client=scene.target.root_id, honest_client=attempt.client)


def five_tokens(scene: Scene, chain: tuple[str, ...]) -> str:
    return ",".join((*chain, "a.b.c"))


# operation


def bound(operation: Callable[[Scene], dict[str, Any]]) -> Forging:
    """A leaf bound to another operation than the one that is sent."""
    return lambda scene: scene.edited(leaf=put(op=operation(scene)))


def sent(call: bytes) -> Forging:
    """Other bytes than those the leaf is bound to."""
    return lambda scene: scene.attempt(scene.honest, call=call)


def outside(dataset: str, capability: str, arguments: dict[str, Any]) -> Forging:
    """A leaf bound to a call that its scope does not hold."""

    def forge(scene: Scene) -> Attempt:
        call = encode_call(dataset, capability, arguments)
        edit = put(op=scene.bound_to(call).to_json())
        return scene.attempt(",".join(scene.forge.chain(edit_leaf=edit)), call=call)

    return forge


def shaped(*parts: dict[str, Any]) -> Forging:
    return lambda scene: scene.attempt(scene.honest, parts=parts)


def other_method(scene: Scene) -> dict[str, Any]:
    stream = scene.door.method == "SendStreamingMessage"
    return {**scene.operation.to_json(), "method": "SendMessage" if stream else "SendStreamingMessage"}


def nonsense(scene: Scene, call: bytes) -> Attempt:
    edit = put(op=scene.bound_to(call).to_json())
    return scene.attempt(",".join(scene.forge.chain(edit_leaf=edit)), call=call)
