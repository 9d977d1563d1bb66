"""How seldom something happens in a loop: in one of so many iterations, as a condition on the loop's variable says."""

from __future__ import annotations

import ast

from dllint.assumptions import Assumption
from dllint.context.expressions import Expressions
from dllint.context.option_effects import OptionEffects
from dllint.dataclass import dataclass
from dllint.events import Event
from dllint.interp.source.known_settings import last_name
from dllint.sites import Guard, Site
from dllint.structure import Loop


@dataclass(frozen=True, slots=True)
class Stride:
    """In one of how many iterations something happens (``count``), the condition that says so, and what is assumed."""

    count: int
    guard: Guard
    assumed: tuple[Assumption, ...] = ()


class Strides(Expressions, OptionEffects):
    """What happens in one of several iterations."""

    def stride_of(self, event: Event, loop: Loop) -> Stride | None:
        """In one of how many iterations of a loop an event happens, where ``if epoch % 10 == 0`` says so.

        The number is written there, at the top of the file, or as all that the project sets an option to.
        """
        for guard in event.guards:
            remainder = _remainder_left(guard)
            if remainder is None or _names(remainder.left).isdisjoint(loop.targets):
                continue
            place = Site(event.site.module, remainder.right)
            count = self.number_at(place)
            if count is not None:
                return Stride(int(count), guard) if count == int(count) else None
            name = last_name(remainder.right)
            least = self._least_of_option(name) if name else None
            if least is not None:
                return Stride(least, guard, (Assumption("default", f"`{name}` is {least}, as by default"),))
        return None

    def _least_of_option(self, name: str) -> int | None:
        """The least number that a project gives an option of some name, where that is all that it gives it."""
        default = self.default_of_option(name)
        known = self._known(name)
        values = (*known.set_to, *known.passed) if not known.is_open else (default,)
        is_known = bool(values) and all(isinstance(each, int) and not isinstance(each, bool) for each in values)
        return min(values) if is_known else None


def _remainder_left(guard: Guard) -> ast.BinOp | None:
    """The ``i % k`` of which a condition asks one outcome: ``i % k == 0``."""
    is_one = (guard.relation == "==" and guard.holds) or (guard.relation == "truthy" and not guard.holds)
    test = guard.node
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.comparators[0], ast.Constant):
        test = test.left
    is_remainder = isinstance(test, ast.BinOp) and isinstance(test.op, ast.Mod)
    return test if is_one and is_remainder and isinstance(test, ast.BinOp) else None


def _names(node: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
