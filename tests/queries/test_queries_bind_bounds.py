"""What is refused of an argument, or of its declaration, before anything is made of it."""

from __future__ import annotations

import unicodedata
from types import SimpleNamespace
from typing import Any

import pytest

from contract.schema import Parameter
from contract.verdict import NotGranted, Reason
from queries import bind as module
from queries.bind import bind, check_parameter
from queries.errors import TemplateError
from tests.queries.world import parameter, template


def test_a_text_far_too_long_is_refused_before_it_is_normalised(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller could otherwise make that work as long as it likes."""
    worked: list[int] = []

    def counted(form: Any, text: str) -> str:
        worked.append(len(text))
        return unicodedata.normalize(form, text)

    monkeypatch.setattr(module, "unicodedata", SimpleNamespace(normalize=counted))
    loaded = template(
        "SELECT id FROM orders WHERE note = @p ORDER BY id", "id:INT64", parameter("p:STRING", max_length=10)
    )
    bind(loaded, {"p": "e\u0301" * 10})
    assert worked == [20]
    with pytest.raises(NotGranted) as refused:
        bind(loaded, {"p": "x" * 41})
    assert refused.value.reason is Reason.ARGUMENTS_INVALID
    assert worked == [20]


def test_declared_values_are_in_the_form_that_arguments_are_brought_to() -> None:
    def declared(*values: str) -> Parameter:
        return parameter("p:STRING").model_copy(update={"values": values})

    assert check_parameter(declared("caf\u00e9")) is None
    assert "Unicode form C" in str(check_parameter(declared("cafe\u0301")))


def test_bytes_are_no_argument() -> None:
    with pytest.raises(TemplateError, match="BYTES parameters are not accepted"):
        template("SELECT id FROM orders WHERE note = @p ORDER BY id", "id:INT64", parameter("p:BYTES"))
