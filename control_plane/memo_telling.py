"""What a question tells, once its words are held against one call: arguments, relations, and the rest.

A word is dropped only where a closed list says that it tells nothing. Everything else stays,
so that two questions that differ in it are two questions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from contract.schema import Parameter
from control_plane.memo_call import Call, named, replaced, with_arguments
from control_plane.memo_terms import (
    AFTER_ASKING,
    ARTICLES,
    ASKING,
    ASKING_WHO,
    BEING,
    COMPARISONS,
    COUNTS,
    DAYS,
    DOING,
    NEUTRAL,
    PLACING,
    SHIFTS,
    SPANS,
)
from control_plane.memo_words import Token, singular
from control_plane.reader_terms import RELATIONS

_JOINING: Final = frozenset({"and", "with", "&"})
_FIGURES: Final = frozenset({"argument", "number", "date", "relative"})
_NAMING: Final = frozenset({"number", "id"})
_QUESTIONS: Final = ASKING | {"what", "which", "what's", "whats"}


@dataclass(frozen=True, slots=True)
class Told:
    """``tokens`` are all that tells something, in order; ``cued`` and ``asks`` say what else was said.

    ``bare`` says that nothing but words of asking, arguments and the dataset's own nouns is there. ``placing`` has for each
    figure what could be taken for another, by its kind or its parameters, and the last word such as *into* before it, or ``""``.
    ``turned`` are words that make an argument the one who does what is asked by: *who does E1 manage*, *the boss of the boss*.
    """

    tokens: tuple[Token, ...]
    cued: bool
    asks: bool
    bare: bool
    placing: tuple[tuple[str, str], ...]
    turned: tuple[str, ...] = ()

    @property
    def figures(self) -> tuple[Token, ...]:
        return tuple(token for token in self.tokens if token.kind not in ("word", "relation"))


def told(question: str, call: Call) -> Told:
    """What a question tells of a call, and beside it."""
    found = with_negations(with_comparisons(_with_relative(with_arguments(question, call))))
    placing = tuple(_placing(found))
    turned = tuple(_turned(_cued(found, call)))
    found = _cued(_without_asking(found), call)
    found = _without_joining(_without_nouns(found, call))
    telling = tuple(_classed(token) for token in found if token.kind not in ("cue", "asking"))
    nouns = frozenset(map(singular, re.split(r"[_-]", "-".join((call.descriptor.dataset, *call.descriptor.schemas)))))
    return Told(
        telling,
        cued=any(token.kind == "cue" for token in found),
        asks=any(token.kind == "asking" for token in found),
        bare=all(token.kind != "word" or token.text in nouns for token in telling),
        placing=placing,
        turned=turned,
    )


def _cued(found: list[Token], call: Call) -> list[Token]:
    for phrase in sorted(call.cues, key=lambda item: (-len(item), item)):
        found = replaced(found, phrase, Token("cue", "", " ".join(phrase)), named)
    return found


def _turned(found: Sequence[Token]) -> Iterator[str]:
    """Words of language that tell something where they stand, and nothing elsewhere."""
    asked = False
    for at, token in enumerate(found):
        kinds = [other.kind for other in found[at : at + 4]]
        before = [(other.kind, other.text) for other in found[max(0, at - 2) : at]]
        asked = asked or token.text in ASKING_WHO
        is_last = at == len(found) - 1 > 0 and token.text in ASKING_WHO | {"of"}
        does = token.text in DOING and asked and kinds[1:2] == ["argument"]
        follows = (
            token.text in ARTICLES
            and bool(before)
            and "argument"
            in (
                before[-1][0],
                before[0][0] if before[-1][1] in BEING else "",
            )
        )
        if is_last or does or follows or (token.kind == "cue" and _nests(found[at:])):
            yield token.text


def _nests(ahead: Sequence[Token]) -> bool:
    """*The boss of the boss*: somebody else."""
    at = next((at for at, token in enumerate(ahead) if at and token.text not in ARTICLES | {"of"}), 0)
    return at > 1 and ahead[at].kind == "cue" and ahead[at].raw == ahead[0].raw


def _placing(found: Sequence[Token]) -> Iterator[tuple[str, str]]:
    last = ""
    for token in found:
        if token.kind in _FIGURES:
            kind = f"={token.text.partition('=')[0]}" if token.kind == "argument" else token.kind
            yield kind, last
            last = ""
        elif token.text in PLACING:
            last = token.text


def _without_asking(found: list[Token]) -> list[Token]:
    """Without what tells nothing, and words of asking as one token where they stand first: later they are a subject.

    A capital letter inside a question makes a name of any word: *US*, *protein A*, *DO*.
    """
    out: list[Token] = []
    leads = True  # nothing but asking so far
    for at, token in enumerate(found):
        before = found[at - 1].text if at else ""
        opens = at == 0 and token.raw.istitle() and token.raw != "A"
        is_small = token.kind == "word" and (token.raw.islower() or opens)
        if leads and is_small and token.text in _QUESTIONS:
            out.append(replace(token, kind="asking"))
        elif is_small and (token.text in NEUTRAL or (leads and _is_polite(token.text, before))):
            continue
        else:
            leads = False
            out.append(token)
    return out


def _is_polite(word: str, before: str) -> bool:
    return word in AFTER_ASKING or (word, before) in (("do", ""), ("to", "want"))


def _with_relative(found: list[Token]) -> list[Token]:
    """*last 7 days*, *2 weeks ago*, *this month*, *yesterday* as one token each."""
    out: list[Token] = []
    at = 0
    while at < len(found):
        size = _relative_size(found[at:])
        if size:
            out.append(Token("relative", " ".join(token.text for token in found[at : at + size])))
        else:
            out.append(found[at])
        at += size or 1
    return out


def _relative_size(ahead: Sequence[Token]) -> int:
    said = [token.text for token in ahead[:4]]
    if said[:2] == ["the", "last"] and len(said) > 2 and said[2] in SPANS:
        return 3  # it may be up to now, and *last month* is not
    numbered = len(ahead) > 1 and ahead[1].kind == "number"
    if said[0] in SHIFTS and len(said) > 1 and said[1] in SPANS:
        return 2
    if said[0] in SHIFTS and numbered and len(said) > 2 and said[2] in SPANS:
        return 3
    if said[0] in SPANS and said[1:] and said[1] == "ago":
        return 2
    if ahead[0].kind == "number" and said[1:2] and said[1] in SPANS and said[2:3] == ["ago"]:
        return 3
    return 1 if said[0] in DAYS and ahead[0].kind == "word" else 0


def with_comparisons(found: list[Token]) -> list[Token]:
    """*more than*, *at least*, *≤* and the like before a number, as what they mean."""
    if all(token.kind != "number" for token in found):
        return found
    out: list[Token] = []
    at = 0
    while at < len(found):
        meaning, size = _comparison(found, at)
        raw = " ".join(token.raw for token in found[at : at + size])
        out.append(Token("relation", meaning, raw) if size else found[at])
        at += size or 1
    return out


def _comparison(found: Sequence[Token], at: int) -> tuple[str, int]:
    for meaning, phrase in COMPARISONS if found[at].kind in ("word", "sign") else ():
        end = at + len(phrase)
        said = tuple(token.text for token in found[at:end] if token.kind in ("word", "sign"))
        if said == phrase and end < len(found) and found[end].kind == "number":
            return meaning, len(phrase)
    return "", 0


def with_negations(found: list[Token]) -> list[Token]:
    """*isn't*, *doesn't* and *cannot* are *not*."""
    return [
        Token("relation", "not", token.raw)
        if token.kind == "word" and (token.text.replace("’", "'").endswith("n't") or token.text == "cannot")
        else token
        for token in found
    ]


def _without_nouns(found: list[Token], call: Call) -> list[Token]:
    """*batch B001* without *batch*: a word of the parameter's own name right before its value tells nothing, if it names no other one.

    Nor does the count of the values that are there: *the two batches B001 and B002*.
    """
    patterned = [item for item in call.capability.parameters if item.pattern is not None]
    values = {
        f"={value}".casefold(): _NAMING | _nouns(str(value), patterned)
        for item in patterned
        for value in call.values(item)
    }
    count = sum(token.kind == "argument" and token.text.casefold() in values for token in found)
    out: list[Token] = []
    for token in found:
        names = values.get(token.text.casefold()) if token.kind == "argument" else None
        if names is not None:
            while out and out[-1].kind == "word" and singular(out[-1].raw) in names:
                out.pop()
            while out and out[-1].kind == "word" and COUNTS.get(out[-1].text) == count:
                out.pop()
        out.append(token)
    return out


def _nouns(value: str, patterned: Sequence[Parameter]) -> frozenset[str]:
    """What every parameter that could take a value calls it: *parent* before a lot that may be a *child* tells which it is."""
    heads = [_head(item.name) for item in patterned if item.pattern and re.fullmatch(item.pattern, value)]
    return frozenset(heads[:1] if len(set(heads)) == 1 else ()) - RELATIONS


def _head(name: str) -> str:
    """What of a parameter's name says what its value is: *batch* of ``batch_a`` and ``parent_batch_id``."""
    parts = [singular(part) for part in re.split(r"[_-]", name)]
    return next((part for part in reversed(parts) if len(part) > 2), "")


def _without_joining(found: list[Token]) -> list[Token]:
    """*and*, *with* and *&* say nothing between two arguments, and *between* nothing before two of them."""
    kinds = ["", *(token.kind for token in found), "", ""]
    return [
        token
        for at, token in enumerate(found)
        if not (
            token.kind in ("word", "sign")
            and (
                (token.text in _JOINING and kinds[at] == kinds[at + 2] == "argument")
                or (token.text == "between" and _are_two_arguments(found[at + 1 : at + 4]))
            )
        )
    ]


def _are_two_arguments(ahead: Sequence[Token]) -> bool:
    joined = [token for token in ahead if token.text not in _JOINING or token.kind == "argument"]
    return len(joined) >= 2 and all(token.kind == "argument" for token in joined[:2])


def _classed(token: Token) -> Token:
    if token.kind == "sign" and token.text == "&":
        return Token("relation", "and", token.raw)
    if token.kind != "word":
        return token
    if token.text in RELATIONS:
        return replace(token, kind="relation")
    return replace(token, text=singular(token.raw))
