from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cache.keys import CacheKeys, load_secret
from cache.opening import open_cache, open_store
from cache.redis_store import RedisStore
from cache.sqlite_store import SqliteStore
from contract.errors import Category, DatasetAgentError
from contract.settings import Settings

HEX = "0f" * 32


def make_settings(tmp_path: Path, **fields: Any) -> Settings:
    return Settings(home=tmp_path, **fields)


def write_secret(tmp_path: Path, text: str = HEX, mode: int = 0o600) -> Path:
    path = tmp_path / "keys" / "remote" / "cache.secret"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def code(settings: Settings) -> str:
    with pytest.raises(DatasetAgentError) as caught:
        load_secret(settings)
    assert caught.value.category is Category.CONFIGURATION
    return caught.value.code


def test_the_secret_comes_from_the_remote_s_store(tmp_path: Path) -> None:
    write_secret(tmp_path, HEX + "\n")
    assert load_secret(make_settings(tmp_path)) == bytes.fromhex(HEX)


def test_the_setting_goes_before_the_file(tmp_path: Path) -> None:
    write_secret(tmp_path)
    assert load_secret(make_settings(tmp_path, cache_secret="ab" * 32)) == bytes.fromhex("ab" * 32)


def test_a_missing_file_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(DatasetAgentError, match="keys init"):
        load_secret(make_settings(tmp_path))
    assert code(make_settings(tmp_path)) == "cache.secret.missing"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_others_may_touch_says_which_chmod_to_run(tmp_path: Path, mode: int) -> None:
    path = write_secret(tmp_path, mode=mode)
    with pytest.raises(DatasetAgentError, match=f"chmod 600 {path}"):
        load_secret(make_settings(tmp_path))
    assert code(make_settings(tmp_path)) == "cache.secret.permissions"


@pytest.mark.parametrize("text", ["", "0f" * 31, "0f" * 33, "zz" * 32, "0f " * 32, "0f" * 31 + "0", "0x" + "0f" * 31])
def test_a_malformed_secret_is_a_fault_that_does_not_repeat_it(tmp_path: Path, text: str) -> None:
    write_secret(tmp_path, text)
    settings = make_settings(tmp_path)
    with pytest.raises(DatasetAgentError, match="64 hex digits") as caught:
        load_secret(settings)
    assert not text or text not in caught.value.message
    assert code(settings) == "cache.secret.malformed"


def test_a_directory_in_its_place_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "keys" / "remote" / "cache.secret").mkdir(parents=True)
    assert code(make_settings(tmp_path)) == "cache.secret.unreadable"


def test_a_short_secret_makes_no_keys() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        CacheKeys.from_secret(bytes(31))


def test_keys_do_not_print() -> None:
    assert repr(CacheKeys.from_secret(bytes(32))) == "CacheKeys(…)"


async def test_the_url_chooses_the_store(tmp_path: Path) -> None:
    assert isinstance(open_store(make_settings(tmp_path)), SqliteStore)
    redis = open_store(make_settings(tmp_path, cache_url="redis://127.0.0.1:1/0"))
    assert isinstance(redis, RedisStore)
    await redis.close()


async def test_opening_touches_neither_disk_nor_network(tmp_path: Path) -> None:
    write_secret(tmp_path)
    cache = open_cache(make_settings(tmp_path))
    await cache.close()
    assert not (tmp_path / "cache.sqlite").exists()


async def test_a_disabled_cache_has_no_store(tmp_path: Path) -> None:
    write_secret(tmp_path)
    assert open_cache(make_settings(tmp_path, cache_enabled=False)).store is None
