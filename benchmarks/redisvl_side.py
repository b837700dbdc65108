"""redisvl's ``SemanticCache`` in an environment of its own: commands as JSON lines on stdin, one answer each on stdout.

    {"open": "minilm" | "trigrams"}   a cache of its own, with redisvl's default distance
    {"store": [[prompt, response], …]}
    {"check": [prompt, …]}            the response that each is answered with, or null, and its microseconds
    {"facts": true}

Nothing of this project is imported here. The one argument is the URL of a server that has the
search module of Redis.
"""

from __future__ import annotations

import json
import sys
import time
import zipfile
from collections.abc import Callable
from importlib.metadata import version
from typing import Any
from zlib import crc32

import numpy as np  # type: ignore[import-not-found, unused-ignore]

_TRIGRAM_BUCKETS = 384
Embed = Callable[[str], Any]


class MiniLm:
    """all-MiniLM-L6-v2 computed from its weights: BERT with six layers, the mean of its tokens, length one.

    Devlin et al., arXiv 1810.04805; the weights and the tokenizer are those of the package.
    """

    def __init__(self) -> None:
        import all_minilm_l6_v2  # type: ignore[import-not-found, unused-ignore]
        from safetensors.numpy import load  # type: ignore[import-not-found, unused-ignore]
        from tokenizers import Tokenizer  # type: ignore[import-not-found, unused-ignore]

        with zipfile.ZipFile(all_minilm_l6_v2.get_model_zip_path()) as files:
            weights = load(files.read("model.safetensors"))
            self._tokens = Tokenizer.from_buffer(files.read("tokenizer.json"))
        self._tokens.no_padding()
        self._weights = {
            name: np.ascontiguousarray(held.T if held.ndim == 2 and ".layer." in name else held, dtype=np.float32)
            for name, held in weights.items()
            if held.dtype == np.float32
        }

    def __call__(self, text: str) -> Any:
        ids = self._tokens.encode(text).ids[:256]
        held = self._weights
        x = held["embeddings.word_embeddings.weight"][ids] + held["embeddings.token_type_embeddings.weight"][0]
        x = self._normal(x + held["embeddings.position_embeddings.weight"][: len(ids)], "embeddings.LayerNorm")
        for layer in range(6):
            x = self._layer(x, f"encoder.layer.{layer}.")
        mean = x.mean(0)
        return mean / np.sqrt((mean * mean).sum())

    def _layer(self, x: Any, at: str) -> Any:
        query, key, value = (
            self._linear(x, f"{at}attention.self.{part}").reshape(len(x), 12, 32).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = np.exp((query @ key.transpose(0, 2, 1)) * np.float32(32**-0.5))
        scores /= scores.sum(-1, keepdims=True)
        attended = (scores @ value).transpose(1, 0, 2).reshape(x.shape)
        x = self._normal(x + self._linear(attended, f"{at}attention.output.dense"), f"{at}attention.output.LayerNorm")
        inner = _gelu(self._linear(x, f"{at}intermediate.dense"))
        return self._normal(x + self._linear(inner, f"{at}output.dense"), f"{at}output.LayerNorm")

    def _linear(self, x: Any, name: str) -> Any:
        return x @ self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]

    def _normal(self, x: Any, name: str) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        scale = np.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(1e-12))
        return centred / scale * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]


def _gelu(x: Any) -> Any:
    """x times the normal distribution up to x; erf by Abramowitz and Stegun 7.1.26, exact to 1.5e-7."""
    t = 1 / (1 + np.float32(0.3275911 * 0.5**0.5) * np.abs(x))
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(x) * (1 - series * np.exp(-x * x / 2))
    return x * (1 + erf) / 2


def trigrams(text: str) -> Any:
    """Counts of character trigrams in hashed buckets, length one: no model, and next to no time."""
    counts = np.zeros(_TRIGRAM_BUCKETS, dtype=np.float32)
    padded = f"  {text.lower()} "
    for place in range(len(padded) - 2):
        counts[crc32(padded[place : place + 3].encode()) % _TRIGRAM_BUCKETS] += 1
    return counts / np.sqrt((counts * counts).sum())


VECTORISERS: dict[str, Callable[[], Embed]] = {"minilm": MiniLm, "trigrams": lambda: trigrams}


class Side:
    """The caches that were opened; commands go to the last."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opened = 0
        self._cache: Any = None

    def open(self, name: str) -> dict[str, Any]:
        from redisvl.extensions.cache.llm import SemanticCache  # type: ignore[import-not-found, unused-ignore]
        from redisvl.utils.vectorize import CustomVectorizer  # type: ignore[import-not-found, unused-ignore]

        embed = VECTORISERS[name]()
        self._opened += 1
        self._cache = SemanticCache(
            name=f"beside{self._opened}",
            redis_url=self._url,
            vectorizer=CustomVectorizer(embed=lambda text, **_: [float(part) for part in embed(text)], dtype="float32"),
        )
        return {"distance": self._cache.distance_threshold}

    def store(self, items: list[list[str]]) -> dict[str, Any]:
        for prompt, response in items:
            self._cache.store(prompt=prompt, response=response)
        return {"stored": len(items)}

    def check(self, prompts: list[str]) -> dict[str, Any]:
        answers, times = [], []
        for prompt in prompts:
            started = time.perf_counter_ns()
            found = self._cache.check(prompt=prompt)
            times.append((time.perf_counter_ns() - started) / 1_000)
            answers.append(found[0]["response"] if found else None)
        return {"answers": answers, "us": times}

    def facts(self, _: bool) -> dict[str, Any]:
        return {name: version(name) for name in ("redisvl", "numpy", "redis")}


def main() -> None:
    # What libraries print is not an answer.
    answers, sys.stdout = sys.stdout, sys.stderr
    side = Side(sys.argv[1])
    for line in sys.stdin:
        (name, value), *_ = json.loads(line).items()
        print(json.dumps(getattr(side, name)(value)), file=answers, flush=True)


if __name__ == "__main__":
    main()
