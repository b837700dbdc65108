"""A large result is described in the reply and fetched: the same bytes, whole or in parts, each time with two rows."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

from contract.canonical import sha256_hex
from contract.extension import CACHE_KEY
from remote_agent.spool_file import CHUNK
from tests.large_world import ARROW, DATASET, JSON, ROWS, Fetcher, described, large_agent, part_of, statement_of
from tests.running_agent import RunningAgent, decision_of, result_of

IN_SCOPE = sum(n % 3 != 2 for n in range(ROWS))


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    with large_agent(tmp_path_factory.mktemp("large")) as served:
        yield served


@pytest.fixture(scope="module")
def fetcher(agent: RunningAgent) -> Fetcher:
    return Fetcher(agent.settings, agent.url)


@pytest.fixture(scope="module")
def as_json(fetcher: Fetcher) -> dict[str, object]:
    return fetcher.large()


def test_a_large_result_is_told_by_address_size_digest_and_count(
    agent: RunningAgent, as_json: dict[str, object]
) -> None:
    part, told = part_of(as_json), described(as_json)
    assert part["url"] == f"{agent.url}/results/{as_json['id']}"
    assert (part["mediaType"], told["row_count"], told["truncated"]) == (JSON, IN_SCOPE, False)
    assert "raw" not in part
    assert told["size"] > 2**20


def test_what_is_fetched_is_what_was_signed(fetcher: Fetcher, as_json: dict[str, object]) -> None:
    body, told = fetcher.fetch(as_json).content, described(as_json)
    statement = statement_of(as_json)
    assert sha256_hex(body) == told["sha256"] == statement["subject"][0]["digest"]["sha256"]
    result = statement["predicate"]["result"]
    assert (len(body), JSON) == (told["size"], result["media_type"]) == (result["size"], result["media_type"])
    assert statement["predicate"]["authorization"]["rows_returned"] == IN_SCOPE


def test_the_document_has_the_rows_of_the_persons_scope(fetcher: Fetcher, as_json: dict[str, object]) -> None:
    document = json.loads(fetcher.fetch(as_json).content)
    assert list(document) == ["schema", "rows", "row_count", "truncated", "as_of"]
    assert [row[0] for row in document["rows"]] == [n for n in range(ROWS) if n % 3 != 2]


def test_its_bytes_are_those_that_would_be_in_a_reply(
    agent: RunningAgent, fetcher: Fetcher, as_json: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent.lifecycle.service, "max_result_bytes", 2**24)
    whole = part_of(fetcher.large())
    assert base64.b64decode(whole["raw"]) == fetcher.fetch(as_json).content


def test_arrow_is_a_stream_of_the_declared_types(fetcher: Fetcher) -> None:
    task = fetcher.large(accept=ARROW)
    response = fetcher.fetch(task)
    table = pa.ipc.open_stream(io.BytesIO(response.content)).read_all()
    assert (response.headers["content-type"], part_of(task)["mediaType"]) == (ARROW, ARROW)
    assert table.column("id").to_pylist() == [n for n in range(ROWS) if n % 3 != 2]
    assert table.schema.field("amount").type == pa.decimal128(38, 9)
    assert table.schema.field("at").type == pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize("below", [0, 3])
def test_few_rows_as_arrow_are_fetched_too(fetcher: Fetcher, below: int) -> None:
    task = fetcher.large(below, accept=ARROW)
    table = pa.ipc.open_stream(io.BytesIO(fetcher.fetch(task).content)).read_all()
    assert table.num_rows == described(task)["row_count"] == min(below, 2)


def test_the_headers_say_what_it_is_and_that_nobody_keeps_it(fetcher: Fetcher, as_json: dict[str, object]) -> None:
    headers = fetcher.fetch(as_json).headers
    told = described(as_json)
    assert headers["etag"] == f'"{told["sha256"]}"'
    assert (headers["content-length"], headers["accept-ranges"]) == (str(int(told["size"])), "bytes")
    assert headers["cache-control"] == "no-store"
    assert headers["repr-digest"].startswith("sha-256=:")


def test_a_download_in_parts_gives_the_same_bytes(fetcher: Fetcher, as_json: dict[str, object]) -> None:
    whole = fetcher.fetch(as_json).content
    edges = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 17, len(whole)]
    parts = []
    for first, behind in zip(edges, edges[1:], strict=False):
        response = fetcher.fetch(as_json, range=f"bytes={first}-{behind - 1}")
        assert response.status_code == 206
        assert response.headers["content-range"] == f"bytes {first}-{behind - 1}/{len(whole)}"
        parts.append(response.content)
    assert b"".join(parts) == whole


@pytest.mark.parametrize(
    ("asked", "first"), [("bytes=1048576-", 2**20), ("bytes=-5", -5), ("Bytes = 7-99999999999", 7)]
)
def test_open_ranges_go_to_the_end(fetcher: Fetcher, as_json: dict[str, object], asked: str, first: int) -> None:
    whole = fetcher.fetch(as_json).content
    response = fetcher.fetch(as_json, range=asked)
    assert (response.status_code, response.content) == (206, whole[first:])


@pytest.mark.parametrize(
    "asked", ["bytes=99999999999-", "bytes=-0", "bytes=5-4", "bytes=0-1,3-4", "bytes=a-b", "bytes="]
)
def test_a_range_that_is_not_there_is_416_with_the_size(
    fetcher: Fetcher, as_json: dict[str, object], asked: str
) -> None:
    response = fetcher.fetch(as_json, range=asked)
    assert response.status_code == 416
    assert response.headers["content-range"] == f"bytes */{int(described(as_json)['size'])}"
    assert response.json()["decision"]["reason"] == "ARGUMENTS_INVALID"


@pytest.mark.parametrize(("same", "status"), [("", 206), ("0", 200)])
def test_a_part_is_only_of_the_result_that_it_began_with(
    fetcher: Fetcher, as_json: dict[str, object], same: str, status: int
) -> None:
    etag = f'"{described(as_json)["sha256"]}{same}"'
    assert fetcher.fetch(as_json, range="bytes=0-9", if_range=etag).status_code == status


def test_another_unit_asks_for_everything(fetcher: Fetcher, as_json: dict[str, object]) -> None:
    assert fetcher.fetch(as_json, range="rows=0-9").status_code == 200


def test_a_download_is_a_row_before_its_first_byte_and_one_before_its_last(
    agent: RunningAgent, fetcher: Fetcher, as_json: dict[str, object]
) -> None:
    before = len(agent.rows())
    fetcher.fetch(as_json, range="bytes=10-99")
    started, ended = (row.cells for row in agent.rows()[before:])
    called = next(row.cells for row in agent.rows() if row.cells["task_id"] == as_json["id"])
    assert (started["kind"], ended["kind"]) == ("release_started", "terminal")
    for row in (started, ended):
        assert (row["verdict"], row["bytes_released"], row["task_id"]) == ("GRANTED", 90, as_json["id"])
        assert row["caused_by"] == called["decision_id"]
        assert (row["dataset"], row["capability"]) == (DATASET, "list")
    assert started["leaf_jti"] == ended["leaf_jti"] != called["leaf_jti"]


def test_a_large_result_is_in_no_cache(agent: RunningAgent, fetcher: Fetcher) -> None:
    kept = dict(agent.lifecycle.service.cache.counters).get("kept", 0)
    outcomes = [fetcher.large(30_000)["metadata"][CACHE_KEY] for _ in range(2)]
    assert [(told["outcome"], told["key"]) for told in outcomes] == [("MISS", None)] * 2
    assert dict(agent.lifecycle.service.cache.counters).get("kept", 0) == kept


def test_arrow_is_not_looked_for_in_the_cache(fetcher: Fetcher) -> None:
    fetcher.large(50)
    assert fetcher.large(50)["metadata"][CACHE_KEY]["outcome"] == "HIT"
    assert fetcher.large(50, accept=ARROW)["metadata"][CACHE_KEY]["outcome"] == "OFF"


def test_what_was_cut_says_so_and_is_not_cached(fetcher: Fetcher) -> None:
    for _ in range(2):
        task = fetcher.large(capability="first")
        document = result_of(task)
        assert (document["row_count"], document["truncated"]) == (100, True)
        assert [row[0] for row in document["rows"]] == [n for n in range(150) if n % 3 != 2]
        assert task["metadata"][CACHE_KEY]["outcome"] == "MISS"
        assert statement_of(task)["predicate"]["authorization"]["truncated"] is True


def test_what_was_not_cut_says_that_and_is_cached(fetcher: Fetcher) -> None:
    documents = [fetcher.large(150, capability="first") for _ in range(2)]
    assert [result_of(task)["truncated"] for task in documents] == [False, False]
    assert documents[1]["metadata"][CACHE_KEY]["outcome"] == "HIT"


def test_more_rows_than_the_capability_has_are_refused_where_it_does_not_cut(fetcher: Fetcher) -> None:
    assert decision_of(fetcher.large(capability="few"))["reason"] == "RESULT_TOO_LARGE"
    assert decision_of(fetcher.large(150, capability="few"))["verdict"] == "GRANTED"


@pytest.mark.parametrize(("accept", "form"), [(None, JSON), ("*/*", JSON), ("application/*", JSON), (ARROW, ARROW)])
def test_the_form_is_what_is_accepted(fetcher: Fetcher, accept: str | None, form: str) -> None:
    assert part_of(fetcher.large(accept=accept))["mediaType"] == form


def test_a_form_that_there_is_not_is_refused_by_the_protocol(fetcher: Fetcher) -> None:
    with pytest.raises(AssertionError, match="-32005"):
        fetcher.large(accept="text/csv")
