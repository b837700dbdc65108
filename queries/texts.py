"""The generated texts of one engine, remembered: the most recently used are kept. Several threads may use them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from queries.govern import Shape
from queries.template import Template

_MOST: Final = 512


class Remembered:
    """Texts by template and shape."""

    def __init__(self) -> None:
        self._texts: OrderedDict[tuple[str, Shape], str] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._texts)

    def get(self, template: Template, shape: Shape) -> str | None:
        key = (template.digest, shape)
        with self._lock:
            text = self._texts.get(key)
            if text is not None:
                self._texts.move_to_end(key)
            return text

    def keep(self, template: Template, shape: Shape, text: str) -> None:
        with self._lock:
            self._texts[(template.digest, shape)] = text
            while len(self._texts) > _MOST:
                self._texts.popitem(last=False)
