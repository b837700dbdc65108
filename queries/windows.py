"""Named windows, written out where they are used."""

from __future__ import annotations

from sqlglot import exp

from queries.errors import Refused


def write_out_windows(tree: exp.Expr) -> None:
    """Replace each name of a WINDOW clause by what it stands for. Raises ``Refused`` for a name without a window."""
    for select in list(tree.find_all(exp.Select)):
        named: dict[str, exp.Window] = {}
        for window in select.args.get("windows") or []:
            name = window.name.lower()
            if name in named:
                raise Refused(f"two windows are named {name}", window)
            _write_out(window, named)
            named[name] = window
        for window in list(select.find_all(exp.Window)):
            if window.args.get("over") and window.parent_select is select:
                _write_out(window, named)
        select.set("windows", None)


def _write_out(window: exp.Window, named: dict[str, exp.Window]) -> None:
    """A window that builds on a named one adds an order or a frame to it, and changes neither."""
    name = window.args.get("alias")
    if name is None:
        return
    base = named.get(name.name.lower())
    if base is None:
        raise Refused(f"there is no window {name.name[:40]} here", window)
    alone = not any(window.args.get(arg) for arg in ("partition_by", "order", "spec"))
    taken = window.args.get("partition_by") or (base.args.get("spec") and not alone)
    if taken or (window.args.get("order") and base.args.get("order")):
        raise Refused(f"what the window {name.name[:40]} says cannot be said again", window)
    for arg in ("partition_by", "order", "spec"):
        held = base.args.get(arg)
        if held is not None and not window.args.get(arg):
            window.set(arg, [item.copy() for item in held] if isinstance(held, list) else held.copy())
    window.set("alias", None)
