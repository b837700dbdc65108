from __future__ import annotations

import json
import os
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cache import entry as entry_module
from cache.entry import (
    HEAD_BYTES,
    MAGIC,
    MAX_HEADER,
    PLAIN_BYTES,
    EntryError,
    Header,
    is_proven,
    open_sealed,
    read_header,
    seal,
    split,
)
from cache.keys import CacheKeys
from cache.partition import PLAIN, Partition, entry_key, partition
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


def sealed(payload: bytes) -> bytes:
    """An entry with this payload, sealed by whoever has the secret."""
    entry = make_entry()
    head, nonce = entry[: split(entry)[1]], bytes(12)
    return head + nonce + KEYS.cipher(PLACE.id).encrypt(nonce, payload, head + KEY.encode())


FACTS: list[Any] = [{}, 1, AS_OF, False, "exe-1", "duckdb", None, "LOCAL", 1.0, 2.0, None, None]
LARGE = b"r" * 5_000


def packed(facts: Any, body: bytes, size: int = 0) -> bytes:
    told = facts if isinstance(facts, bytes) else json.dumps(facts).encode()
    return size.to_bytes(4, "big") + len(told).to_bytes(4, "big") + told + body


def block(body: bytes = LARGE) -> bytes:
    return bytes(pyarrow.Codec("lz4_raw").compress(body, asbytes=True))


def test_what_the_payload_says_is_what_is_documented() -> None:
    assert reopen(sealed(packed(FACTS, b"rows")))[0].body == b"rows"
    assert reopen(sealed(packed(FACTS, block(), len(LARGE))))[0].body == LARGE


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x00" * 7,
        packed(b"not json", b"rows"),
        packed({}, b"rows"),
        packed(7, b"rows"),
        packed(FACTS[:3], b"rows"),
        packed(FACTS[:6], b"rows"),
        packed([*FACTS, None], b"rows"),
        packed([*FACTS[:3], 0, *FACTS[4:]], b"rows"),
        packed(FACTS, b"no block", 4_000),
        packed(FACTS, block(), len(LARGE) - 1),
        packed(FACTS, block()[:-1], len(LARGE)),
        packed(FACTS, b"", 4_000),
    ],
)
def test_a_payload_of_another_release_is_no_entry(payload: bytes) -> None:
    with pytest.raises(EntryError, match="another form"):
        reopen(sealed(payload))


def test_a_header_has_a_size() -> None:
    header = split(make_entry())[0]
    with pytest.raises(EntryError, match="too large"):
        seal(
            header._replace(template="t" * 5_000),
            make_document(),
            make_execution(),
            key=KEY,
            partition_id=PLACE.id,
            keys=KEYS,
        )


def test_a_header_is_proven_by_its_secret_and_its_key() -> None:
    header = split(make_entry())[0]
    assert is_proven(header, key=KEY, keys=KEYS)
    assert header.kid == KEYS.kid
    assert not is_proven(header, key=KEY, keys=CacheKeys.from_secret(bytes(32)))
    assert not is_proven(header, key=KEY + "0", keys=KEYS)
    assert not is_proven(header._replace(exp=header.exp + 1), key=KEY, keys=KEYS)


def test_an_entry_may_be_served_for_as_long_as_it_is_stale_behind_its_end() -> None:
    header = split(make_entry())[0]
    assert (header.end, header._replace(stale_s=30).end) == (NOW + 60.0, NOW + 90.0)


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
        {"more": 1},
        {"started": True},
        {"started": -1},
        {"started": "1"},
        {"exp": 253_402_300_800},
        {"exp": 253_402_300_799, "stale_s": 1},
        {"stale_s": -1},
        {"stale_s": 1.5},
        {"stale_s": 2**53},
        {"size": -1},
        {"size": 2**53},
        {"size": True},
    ],
)
def test_a_header_whose_numbers_are_none_is_not_read(change: dict[str, Any]) -> None:
    with pytest.raises(EntryError):
        split(_with_header(change))


def _with_text(data: bytes) -> bytes:
    entry = make_entry()
    return entry[:5] + len(data).to_bytes(4, "big") + data + entry[split(entry)[1] :]


@pytest.mark.parametrize("data", [b"", b"[]", b"7", b"null", b'"header"', b"{", b"\xff"])
def test_a_header_is_an_object(data: bytes) -> None:
    with pytest.raises(EntryError):
        split(_with_text(data))


def test_no_more_is_read_as_a_header_than_one_may_have() -> None:
    header = make_entry()[9 : split(make_entry())[1]]
    assert split(_with_text(header.ljust(MAX_HEADER)))[0] == split(make_entry())[0]
    with pytest.raises(EntryError, match="too large"):
        split(_with_text(header.ljust(MAX_HEADER + 1)))


def test_a_header_that_is_cut_is_not_read_though_what_is_there_is_whole() -> None:
    header = make_entry()[9 : split(make_entry())[1]]
    padded = _with_text(header.ljust(MAX_HEADER))
    with pytest.raises(EntryError, match="cut or too large"):
        split(padded[: 9 + MAX_HEADER - 1])


@pytest.mark.parametrize("magic", [b"dsce1", b"dsce3", b"DSCE2"])
def test_an_entry_of_another_release_is_not_read(magic: bytes) -> None:
    with pytest.raises(EntryError, match="not an entry"):
        split(magic + make_entry()[5:])


@pytest.mark.parametrize("key", ["", "session:1", KEY.rpartition(":")[0]])
def test_an_entry_at_a_key_that_is_none_is_not_listed(key: str) -> None:
    with pytest.raises(EntryError, match="not this key's"):
        read_header(make_entry(), key=key)


def test_a_header_that_says_a_member_twice_is_not_listed() -> None:
    entry = make_entry()
    _, end = split(entry)
    twice = b'{"template":"other",' + entry[10:end]
    said = entry[:5] + len(twice).to_bytes(4, "big") + twice + entry[end:]
    assert split(said)[0] == split(entry)[0]
    with pytest.raises(EntryError, match="not readable"):
        read_header(said, key=KEY)


@pytest.mark.parametrize("kid", ["", "x", "g" * 16, None, 7])
@pytest.mark.parametrize("name", ["kid", "proof"])
def test_a_header_names_its_secret_and_its_proof_in_their_form(name: str, kid: object) -> None:
    with pytest.raises(EntryError, match="what no entry holds"):
        read_header(_with_header({name: kid}), key=KEY)


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
        {"dimensions": sorted(PLAIN)},
        {"dimensions": None},
        {"dimensions": {**PLACE.dimensions, "dataset": "other"}},
        {"dimensions": {**PLACE.dimensions, "principal_class": "\x1b[31m"}},
        {"dimensions": {**PLACE.dimensions, "tenant": "acme"}},
        {"dimensions": {**PLACE.dimensions, "revision": 1}},
    ],
)
def test_a_header_written_by_somebody_else_is_not_listed(change: dict[str, Any]) -> None:
    with pytest.raises(EntryError):
        read_header(_with_header(change), key=KEY)
