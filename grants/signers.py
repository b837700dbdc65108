"""Who signs: the one place where a process opens its private keys.

A key is a file of the role's store, a private JWK in the environment, or a signer that other
code makes: a KMS, an HSM, another process. Exactly one of the three; a second is a fault,
since nobody could say which of them signs.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from contract.errors import DatasetAgentError, SignerUnavailable, WrongSetting
from contract.key_ring import KeyRing
from contract.settings import PREFIX, Settings
from contract.signing import PublicKey, Signer
from grants.key_files import FileSigner, LocalSigner, key_fault
from grants.key_store import KeyName, KeyStore

log = logging.getLogger(__name__)

T = TypeVar("T")

PATIENCE: Final = 10.0
"""Seconds that a running process gives the code that makes a signer."""


class ForeignSigner:
    """A signer that other code made: it never returns a signature that is not its key's.

    ``sign`` raises ``SignerUnavailable``, whatever went wrong there; the text of a
    foreign fault may hold a secret, so only its type is told.
    """

    def __init__(self, signer: Signer, public: PublicKey, setting: str) -> None:
        self._signer = signer
        self._setting = setting
        self._public = public

    @property
    def public_key(self) -> PublicKey:
        return self._public

    def sign(self, message: bytes) -> bytes:
        try:
            signature = bytes(self._signer.sign(message))
        except BaseException as error:
            _let_the_operator_stop(error)
            raise self._unavailable(f"fails with {type(error).__name__}") from None
        if not self._public.verifies(signature, message):
            raise self._unavailable("returns no signature of its own key")
        return signature

    def __repr__(self) -> str:
        return f"ForeignSigner({self._setting}, kid={self._public.thumbprint!r})"

    def _unavailable(self, what: str) -> SignerUnavailable:
        fault = SignerUnavailable(
            f"the signer that {self._setting} names {what}: see that it runs and holds the key that trust.toml pins"
        )
        log.error(fault.message)
        return fault


def open_signer(settings: Settings, name: KeyName) -> KeyRing:
    """What a process signs with as this role, and the staged and replaced keys that are in its store.

    Raises ``grants.keys.*``: no key, two sources of one, a file that others could read or
    replace, a key or a factory that is none; and ``grants.signer.unavailable``.
    """
    store = KeyStore.of(settings, name)
    outside = outside_signer(settings, name)
    others = [FileSigner.load(path) for path in store.others()]
    if outside is None:
        return KeyRing(FileSigner.load(store.current), *others)
    if store.current.exists():
        raise key_fault(
            "two_sources", f"{store.current} and {outside_setting(settings, name)} both hold the {name} key; drop one"
        )
    return KeyRing(outside, *others, waits=isinstance(outside, ForeignSigner))


async def reopen(settings: Settings, *names: KeyName, patience: float | None = None) -> tuple[KeyRing, ...]:
    """``open_signer`` for each of ``names``, beside the event loop: another's code may wait for a machine.

    Raises as ``open_signer``, and ``grants.signer.unavailable`` after ``patience`` seconds (default ``PATIENCE``).
    """
    limit = PATIENCE if patience is None else patience
    try:
        async with asyncio.timeout(limit):
            return await _beside(lambda: tuple(open_signer(settings, name) for name in names))
    except TimeoutError as error:
        raise SignerUnavailable(
            f"no signer was made in {limit:.0f} s: see that what makes the keys of the {' and '.join(names)} answers"
        ) from error


async def _beside(work: Callable[[], T]) -> T:
    """In a thread of its own: one that hangs holds up neither other work nor the end of the process."""
    loop, done = asyncio.get_running_loop(), asyncio.Future[T]()

    def tell(put: Callable[[Any], None], what: Any) -> None:
        if not done.done():
            put(what)

    def run() -> None:
        try:
            told: tuple[Callable[[Any], None], Any] = done.set_result, work()
        except BaseException as error:
            told = done.set_exception, error
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(tell, *told)

    threading.Thread(target=run, name="open-signer", daemon=True).start()
    return await done


def outside_signer(settings: Settings, name: KeyName) -> Signer | None:
    """The signer that the environment gives; ``None`` where the key is a file. Raises as ``open_signer``."""
    setting = outside_setting(settings, name)
    if setting is None:
        return None
    jwk = getattr(settings, f"{name}_jwk")
    if jwk is not None:
        try:
            return LocalSigner.of_jwk(jwk.get_secret_value().encode(), setting)
        except DatasetAgentError as wrong:
            raise WrongSetting.of(wrong) from None
    return ForeignSigner(*_made_by(getattr(settings, f"{name}_signer"), settings, name, setting), setting)


def outside_setting(settings: Settings, name: KeyName) -> str | None:
    """The variable that gives this key instead of a file. Raises ``grants.keys.two_sources``."""
    given = [kind for kind in ("jwk", "signer") if getattr(settings, f"{name}_{kind}") is not None]
    variables = [f"{PREFIX}{name}_{kind}".upper() for kind in given]
    if len(variables) > 1:
        both = f"{' and '.join(variables)} both give the {name} key; unset one"
        raise WrongSetting.of(key_fault("two_sources", both))
    return variables[0] if variables else None


def _made_by(factory: str, settings: Settings, name: KeyName, setting: str) -> tuple[Signer, PublicKey]:
    """``factory(settings, name)`` and its key: whoever may set the environment chooses the code that runs here anyway."""
    module, _, attribute = factory.partition(":")
    try:
        made: Any = getattr(importlib.import_module(module), attribute)(settings, str(name))
        public = PublicKey(bytes(made.public_key.raw))
    except DatasetAgentError:
        raise
    except BaseException as error:
        _let_the_operator_stop(error)
        raise key_fault(
            "signer",
            f"{setting} names {factory}, which makes no signer ({type(error).__name__}): see that what it asks runs, "
            "or correct it",
        ) from error
    return made, public


def _let_the_operator_stop(error: BaseException) -> None:
    """Whatever another's code raises ends nothing of ours; Ctrl-C, which arrives in the main thread, does."""
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error
