"""``super()``: an object, seen from one of its classes."""

from __future__ import annotations

import ast

from dllint.sites import Site
from dllint.values import Class, Scope, Symbol, Value


class SuperProxy(Value):
    """``super()`` inside a method: the object, and the class behind which members are looked up."""

    __slots__ = ("owner", "receiver")

    def __init__(self, receiver: Value, owner: Class, site: Site) -> None:
        self.receiver = receiver
        self.owner = owner
        self.site = site


def super_of(scope: Scope, site: Site, named: Value | None = None) -> Value:
    """The value of ``super()`` in a scope, or of ``super(Named, self)``, which looks behind the class that it names."""
    current: Scope | None = scope
    while current is not None:
        function = current.function
        if function is not None and function.owner is not None and isinstance(function.node, ast.FunctionDef):
            parameters = function.node.args.args
            receiver = current.variables.get(parameters[0].arg) if parameters else None
            if receiver is not None:
                return SuperProxy(receiver, named if isinstance(named, Class) else function.owner, site)
        current = current.parent
    return Symbol("unknown", detail="super", site=site)
