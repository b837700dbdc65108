"""Words of a question, reduced to stems: the one reading of text that discovery and interpretation share.

Deliberately small and deterministic: English stop words and a handful of suffix rules. It
maps words to meanings that code then confirms; it authorizes nothing.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

from control_plane.remembered import of_words

_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?")
_POSSESSIVE: Final = re.compile(r"['’]s?$")
_DOUBLED: Final = re.compile(r"([^aeiouls])\1$")
_SUFFIXES: Final = (("ations", 4), ("ation", 4), ("ating", 4), ("ated", 4), ("ates", 4), ("ate", 4))

_STOP_TEXT: Final = """
a about above across after all also am an and any are as at be been before below between both but by can could
did do does doing done during each every for from further give had has have having he her here him his how i
if in into is it its itself just let like may me might more most much must my no nor not now of off on once
only or other our out over own please same shall she should show so some such tell than that the their them
then there these they this those through to too under until up us using very want was we were what when where
which while who whom whose why will with within without would you your
"""
STOP_WORDS: Final = frozenset(_STOP_TEXT.split())
_ASKING_TEXT: Final = "display fetch find get list look put retrieve search see show"


@dataclass(frozen=True, slots=True)
class Word:
    """A word as written, its stem, and where it stands (character offsets)."""

    text: str
    stem: str
    start: int
    end: int

    @property
    def is_stop(self) -> bool:
        return self.text.casefold() in STOP_WORDS


def words(text: str) -> tuple[Word, ...]:
    """The words of a text in order; ``_`` and ``-`` separate."""
    return tuple(Word(match.group(), stem(match.group()), match.start(), match.end()) for match in _WORD.finditer(text))


def stems(text: str) -> tuple[str, ...]:
    """Stems of every word, stop words included, so that phrases keep their shape."""
    return tuple(stem(match.group()) for match in _WORD.finditer(text))


def content_stems(text: str) -> tuple[str, ...]:
    """Stems of the words that carry meaning."""
    return tuple(word.stem for word in words(text) if not word.is_stop)


@of_words
def stem(word: str) -> str:
    """A word's stem: ``batches`` and ``batch``, ``comparing`` and ``compare`` are one."""
    text = _POSSESSIVE.sub("", unicodedata.normalize("NFKC", word).casefold())
    if len(text) <= 3 or any(char.isdigit() for char in text):
        return text
    text = without_plural(text)
    for suffix, least in _SUFFIXES:
        if text.endswith(suffix) and len(text) - len(suffix) >= least:
            return text[: -len(suffix)]
    for suffix in ("ing", "ed"):
        if text.endswith(suffix) and len(text) - len(suffix) >= 3:
            text = _DOUBLED.sub(r"\1", text[: -len(suffix)])
            break
    return text[:-1] if text.endswith("e") and len(text) > 4 else text


def without_plural(text: str) -> str:
    """A word in lower case without the ending of a plural, by the rules of spelling alone."""
    if text.endswith("ies") and len(text) > 4:
        return text[:-3] + "y"
    if text.endswith(("ches", "shes", "xes", "sses", "zes")):
        return text[:-2]
    if text.endswith("s") and not text.endswith(("ss", "us", "is")):
        return text[:-1]
    return text


_FUNCTION_TEXT: Final = """
a an the is are was be do of in on at for into to by as so no not or and us it its me my we you i he if up am per
"""
_FUNCTION: Final = frozenset(_FUNCTION_TEXT.split())


def is_function_word(text: str, *, begins: bool, shouted: bool) -> bool:
    """Whether a word as written is one of language and no name such as *US*, *IN*, *A*.

    ``begins`` says that a question begins with it, ``shouted`` that all of it is in capitals.
    """
    is_name = text.isupper() and not shouted and not (begins and len(text) == 1) and text != "I"
    return text.casefold() in _FUNCTION and not is_name


# They say that something is asked, and nothing of what.
ASKING_STEMS: Final = frozenset(stem(word) for word in _ASKING_TEXT.split())


def find_phrase(phrase: tuple[str, ...], text: tuple[str, ...]) -> int | None:
    """Where ``phrase`` stands in ``text`` as whole consecutive stems, or ``None``."""
    if not phrase:
        return None
    for start in range(len(text) - len(phrase) + 1):
        if text[start : start + len(phrase)] == phrase:
            return start
    return None
