from __future__ import annotations

import json
import os
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cache import entry as entry_module
from cache.entry import HEAD_BYTES, MAGIC, PLAIN_BYTES, EntryError, Header, open_sealed, read_header, seal, split
from cache.keys import CacheKeys
from cache.partition import Partition, entry_key, partition
from contract.result import Execution, ResultDocument
from tests.authority_builder import NOW, make_authority
from tests.cache.cache_builder import AS_OF, BODY, TEMPLATE, make_document, make_execution, make_intent

KEYS = CacheKeys.from_secret(bytes(range(32)))


def where(**fields: Any) -> tuple[Partition, str]:
    found = partition(
        make_authority(**fields), make_intent(), freshness_class="standard", media_type="application/json", keys=KEYS
    )
    return found, entry_key(found, make_intent(), keys=KEYS)


PLACE, KEY = where()


def make_entry(document: ResultDocument | None = None, *, keys: CacheKeys = KEYS) -> bytes:
    document = document or make_document()
    header = Header(PLACE.dimensions, TEMPLATE, AS_OF, float(NOW), NOW + 60.0, len(document.body))
    return seal(header, document, make_execution(), key=KEY, partition_id=PLACE.id, keys=keys)


def reopen(
    entry: bytes, *, key: str = KEY, partition_id: str = PLACE.id, keys: CacheKeys = KEYS
) -> tuple[ResultDocument, Execution]:
    _, end = split(entry)
    return open_sealed(entry, end, key=key, partition_id=partition_id, keys=keys)


@settings(max_examples=50)
@given(st.binary(max_size=4_096))
def test_an_entry_opens_to_the_same_bytes_and_execution(body: bytes) -> None:
    document = make_document(body)
    assert reopen(make_entry(document)) == (document, make_execution())


@pytest.mark.parametrize("size", [0, 1, *range(PLAIN_BYTES - 300, PLAIN_BYTES + 3, 30), 100_000])
@pytest.mark.parametrize("plain_bytes", [0, PLAIN_BYTES, 10**9])
def test_a_result_opens_whether_or_not_it_was_compressed(
    size: int, plain_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_module, "PLAIN_BYTES", plain_bytes)
    for body in (b"r" * size, os.urandom(size), pyarrow.compress(b"r" * size, "lz4_raw", asbytes=True)):
        document = make_document(body)
        assert reopen(make_entry(document)) == (document, make_execution())


def test_a_large_result_is_stored_smaller_and_a_small_one_as_it_is() -> None:
    assert len(make_entry(make_document(b"r" * 50_000))) < 2_000
    assert len(make_entry(make_document(b"r" * 1_000))) - len(make_entry(make_document(b"r" * 500))) == 501


def test_the_header_is_read_without_any_key() -> None:
    header = read_header(make_entry()[:HEAD_BYTES], key=KEY)
    assert header.dimensions == dict(PLACE.dimensions)
    assert (header.template, header.as_of, header.exp, header.size) == (TEMPLATE, AS_OF, NOW + 60.0, len(BODY))


def test_a_byte_changed_anywhere_does_not_open() -> None:
    entry = make_entry()
    for index in range(len(entry)):
        altered = bytearray(entry)
        altered[index] ^= 0x01
        with pytest.raises(EntryError):
            reopen(bytes(altered))


def test_an_entry_cut_anywhere_does_not_open() -> None:
    entry = make_entry()
    for length in range(len(entry)):
        with pytest.raises(EntryError):
            reopen(entry[:length])


@given(st.binary(max_size=64))
def test_bytes_appended_or_invented_do_not_open(junk: bytes) -> None:
    for entry in (junk, make_entry() + junk + b"x", MAGIC + junk, MAGIC + b"\x00\x00\x00\x02{}" + junk):
        with pytest.raises(EntryError):
            reopen(entry)


@pytest.mark.parametrize("fields", [{"subject": "u-2", "tenant": "other"}, {"policy_version": "2026.2"}])
def test_an_entry_moved_to_another_key_does_not_open(fields: dict[str, Any]) -> None:
    other, key = where(**fields)
    with pytest.raises(EntryError):
        reopen(make_entry(), key=key, partition_id=other.id)


def test_an_entry_moved_inside_its_partition_does_not_open() -> None:
    key = entry_key(PLACE, make_intent({"batch": "B002"}), keys=KEYS)
    with pytest.raises(EntryError):
        reopen(make_entry(), key=key)


def test_an_entry_of_another_secret_does_not_open() -> None:
    with pytest.raises(EntryError):
        reopen(make_entry(keys=CacheKeys.from_secret(bytes(32))))


def test_a_later_expiry_written_into_the_header_does_not_open() -> None:
    entry = make_entry()
    assert entry.count(b"%d.0" % (NOW + 60)) == 1
    with pytest.raises(EntryError):
        reopen(entry.replace(b"%d.0" % (NOW + 60), b"%d.0" % (NOW + 61)))


def test_rows_do_not_show_in_a_stored_entry() -> None:
    assert b"ROW-SECRET" not in make_entry()


def test_two_entries_of_one_result_share_no_ciphertext() -> None:
    first, second = make_entry(), make_entry()
    end = split(first)[1]
    assert first[end:] != second[end:]


def _with_header(change: dict[str, Any]) -> bytes:
    entry = make_entry()
    _, end = split(entry)
    raw = {**json.loads(entry[9:end]), **change}
    data = json.dumps(raw).encode()
    return entry[:5] + len(data).to_bytes(4, "big") + data + entry[end:]


@pytest.mark.parametrize(
    "change",
    [
        {"template": "\x1b[31m"},
        {"as_of": "a b"},
        {"as_of": 7},
        {"size": "x"},
        {"exp": None},
        {"dimensions": []},
        {"dimensions": {}},
        {"dimensions": {**PLACE.dimensions, "dataset": "other"}},
        {"dimensions": {**PLACE.dimensions, "principal_class": "\x1b[31m"}},
        {"dimensions": {**PLACE.dimensions, "tenant": "acme"}},
        {"dimensions": {**PLACE.dimensions, "revision": 1}},
    ],
)
def test_a_header_written_by_somebody_else_is_not_listed(change: dict[str, Any]) -> None:
    with pytest.raises(EntryError):
        read_header(_with_header(change), key=KEY)
