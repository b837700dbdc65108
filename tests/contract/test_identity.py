"""Three identities that are never merged, and that no two of them meet in one."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.identity import AdkIdentity, ExecutionIdentity, person_user, try_execution_identity, try_identity
from contract.ids import MAX_ID_BYTES, AppName, InvalidId, InvocationId, SessionId, UserId

texts = st.text(st.sampled_from("ab:/@#%|\\ é"), min_size=1, max_size=6)


@dataclass
class Session:
    id: object = "s"
    app_name: object = "a"
    user_id: object = "u"


@dataclass
class Context:
    session: object
    invocation_id: object = "i"


@given(st.tuples(texts, texts), st.tuples(texts, texts))
def test_two_people_are_one_user_only_where_they_are_one_person(left: tuple[str, str], right: tuple[str, str]) -> None:
    assert (person_user(*left) == person_user(*right)) is (left == right)


@given(st.tuples(texts, texts, texts), st.tuples(texts, texts, texts))
def test_two_sessions_are_one_only_where_application_user_and_session_are(
    left: tuple[str, str, str], right: tuple[str, str, str]
) -> None:
    held = {AdkIdentity(AppName(left[0]), UserId(left[1]), SessionId(left[2])): 1}
    same = AdkIdentity(AppName(right[0]), UserId(right[1]), SessionId(right[2])) in held
    assert same is (left == right)


@pytest.mark.parametrize("size", [0, 1, 512, 513])
@pytest.mark.parametrize("letter", ["x", "é"])
@pytest.mark.parametrize("kind", [AppName, UserId, SessionId, InvocationId])
def test_an_id_has_one_to_512_bytes_and_not_characters(kind: type[UserId], letter: str, size: int) -> None:
    value = letter * size
    if 1 <= len(value.encode()) <= MAX_ID_BYTES:
        assert kind(value) == value
    else:
        with pytest.raises(InvalidId, match=kind.__name__):
            kind(value)


@pytest.mark.parametrize("kind", [SessionId, InvocationId])
def test_generated_ids_are_valid_and_differ(kind: type[SessionId]) -> None:
    made = {kind.generate() for _ in range(200)}
    assert len(made) == 200
    assert all(type(one) is kind and kind(one) == one for one in made)


@pytest.mark.parametrize(
    "made",
    [
        lambda: AdkIdentity(UserId("a"), UserId("u"), SessionId("s")),  # type: ignore[arg-type]
        lambda: AdkIdentity(AppName("a"), SessionId("u"), SessionId("s")),  # type: ignore[arg-type]
        lambda: AdkIdentity(AppName("a"), UserId("u"), "s"),  # type: ignore[arg-type]
        lambda: ExecutionIdentity("a", InvocationId("i"), "", "x"),  # type: ignore[arg-type]
        lambda: ExecutionIdentity(AdkIdentity(AppName("a"), UserId("u"), SessionId("s")), "i", "", "x"),  # type: ignore[arg-type]
    ],
)
def test_an_id_of_another_layer_is_refused_where_an_identity_is_made(made: object) -> None:
    with pytest.raises(InvalidId, match="expected"):
        made()  # type: ignore[operator]


@pytest.mark.parametrize(
    "context",
    [
        None,
        object(),
        Context(None),
        Context(Session(id="")),
        Context(Session(id="a\x00b")),
        Context(Session(id="x" * 513)),
        Context(Session(user_id=None)),
        Context(Session(app_name=7)),
        Context(Session(id="\ud800")),
    ],
)
def test_a_context_without_usable_ids_is_described_and_never_crashes(context: object) -> None:
    assert isinstance(try_identity(context), str)  # type: ignore[arg-type]
    told = try_execution_identity(context, branch="", agent_name="x")  # type: ignore[arg-type]
    assert isinstance(told, str) and "identity" in told


def test_a_run_without_an_invocation_is_described_too() -> None:
    context = Context(Session(), invocation_id="")
    assert isinstance(try_identity(context), AdkIdentity)  # type: ignore[arg-type]
    assert "InvocationId" in str(try_execution_identity(context, branch="", agent_name="x"))  # type: ignore[arg-type]
