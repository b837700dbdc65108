"""What is no card is refused as one, whatever it is instead."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from contract.extension import EXTENSION_URI
from delegation.card_reader import MAX_DATASETS, InvalidCard, read_card, read_extended
from grants.trust import TrustedAgent
from tests.delegation.signed_cards import AGENT_ID, card_with, signed_card
from tests.root_agent.scripted_remote import TestSigner


@pytest.fixture(scope="module")
def signer() -> TestSigner:
    return TestSigner()


@pytest.fixture(scope="module")
def agent(signer: TestSigner) -> TrustedAgent:
    return TrustedAgent(AGENT_ID, "http://127.0.0.1:1", signer.public_key)


def refused(value: Any, agent: TrustedAgent, *, extended: bool = False) -> str:
    with pytest.raises(InvalidCard) as stop:
        (read_extended if extended else read_card)(orjson.dumps(value), agent)
    return str(stop.value)


def test_a_signed_card_is_read_with_its_datasets(signer: TestSigner, agent: TrustedAgent) -> None:
    card = signed_card(card_with(descriptors=[{"dataset": "not-readable"}]), signer)
    assert [known.dataset for known in read_card(orjson.dumps(card), agent).descriptors] == ["not-readable"]
    extended = {"jsonrpc": "2.0", "id": 1, "result": card}
    assert read_extended(orjson.dumps(extended), agent).descriptors == read_card(orjson.dumps(card), agent).descriptors


@pytest.mark.parametrize("value", [[], "card", None, 7])
def test_what_is_no_object_is_no_card(agent: TrustedAgent, value: Any) -> None:
    assert refused(value, agent) == "it is not an object"
    assert refused(value, agent, extended=True) == "its extended card is not handed out"


def test_an_error_beside_a_card_hands_out_nothing(signer: TestSigner, agent: TrustedAgent) -> None:
    card = signed_card(card_with(descriptors=[]), signer)
    reply = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "no"}}
    for answer in (reply, {**reply, "result": card}, {"jsonrpc": "2.0", "id": 1}):
        assert refused(answer, agent, extended=True) == "its extended card is not handed out"


@pytest.mark.parametrize(
    "listed", [{"dataset": "one"}, "datasets", 1, [{"dataset": f"d{number}"} for number in range(MAX_DATASETS + 1)]]
)
def test_datasets_are_a_list_of_so_many_at_most(signer: TestSigner, agent: TrustedAgent, listed: Any) -> None:
    assert "not a list of at most" in refused(signed_card(card_with(descriptors=listed), signer), agent)


@pytest.mark.parametrize("listed", [[{}], [{"dataset": 7}], ["one"], [{"dataset": "one"}, {"dataset": "one"}]])
def test_a_dataset_without_a_name_or_named_twice_spoils_the_card(
    signer: TestSigner, agent: TrustedAgent, listed: list[Any]
) -> None:
    assert "without a name, or one twice" in refused(signed_card(card_with(descriptors=listed), signer), agent)


def test_the_extension_is_named_as_it_is_published() -> None:
    (extension,) = card_with(descriptors=[])["capabilities"]["extensions"]
    assert extension["uri"] == EXTENSION_URI
