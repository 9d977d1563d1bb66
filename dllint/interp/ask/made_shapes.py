"""Shapes of what is made: tensors and arrays of given sizes, and data that comes with a library."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dllint.interp.ask.shape import Shape
from dllint.interp.ask.sizes import Size, of_axis
from dllint.values import Const, Instance, Symbol, Value

SizesOf = Callable[[Sequence[Value]], "list[Size | None] | None"]

_OF_SIZES = frozenset(f"torch.{name}" for name in ("zeros", "ones", "empty", "randn", "rand"))
_OF_SHAPE = frozenset(f"numpy.{name}" for name in ("zeros", "ones", "empty", "full", "random.random"))
_OF_SIZES_OR_ONE = frozenset(("numpy.random.rand", "numpy.random.randn"))  # a number, if no size is given
_DRAWN = {"numpy.random.normal": 2, "numpy.random.uniform": 2, "numpy.random.randint": 2}  # where the size stands
_ROWS = {f"{package}.{name}": 2 for package in ("numpy", "torch") for name in ("linspace", "logspace", "geomspace")}
_TENSORS = frozenset(f"torch.{name}Tensor" for name in ("", "Float", "Double", "Half", "Long", "Int", "Bool", "Byte"))
_NUMBERS = frozenset(f"random.{name}" for name in ("random", "uniform", "gauss", "randint", "randrange"))
_SCALED = (".fit_transform", ".transform", ".inverse_transform")
_SAMPLES = frozenset(
    f"sklearn.datasets.{name}"
    for name in (
        *("load_diabetes", "load_boston", "load_breast_cancer", "load_iris", "load_wine", "load_digits"),
        *("fetch_california_housing", "make_regression", "make_friedman1", "make_friedman2", "make_friedman3"),
        *("make_classification", "make_blobs", "make_moons", "make_circles"),
    )
)
MADE = frozenset(
    ("torch.arange", "numpy.arange", *_OF_SIZES, *_ROWS, *_OF_SHAPE, *_OF_SIZES_OR_ONE, *_DRAWN, *_NUMBERS)
)


def of_made(made: Symbol, sizes_of: SizesOf) -> Shape | None:
    """``torch.zeros(2, 3)``, ``numpy.zeros((2, 3))``, ``numpy.random.randn(2, 3)``, ``random.random()``."""
    given = made.arguments
    if given is None or made.name not in MADE or made.name in _NUMBERS:
        return Shape(()) if made.name in _NUMBERS else None
    if made.name.endswith(".arange"):
        return Shape((of_axis(made, 0),))
    told: Sequence[Value] = given.positional
    if made.name in _ROWS:
        steps = given.get(_ROWS[made.name], "num") or given.keywords.get("steps")
        sizes = sizes_of((steps,)) if isinstance(steps, Const) else None
        return Shape(((sizes[0] if sizes else None) or of_axis(made, 0),))
    if made.name in _DRAWN:
        size = given.get(_DRAWN[made.name], "size")
        if size is None:
            return Shape(()) if given.exact else None
        told = (size,)
    elif made.name in _OF_SHAPE:
        shape = given.get(0, "size" if ".random." in made.name else "shape")
        told = (shape,) if shape is not None else ()
    elif made.name in _OF_SIZES_OR_ONE and not told and given.exact:
        return Shape(())
    sizes = sizes_of(told)
    return Shape(tuple(size for size in sizes if size is not None)) if sizes and None not in sizes else None


def of_given_sizes(made: Symbol, sizes_of: SizesOf) -> Shape | None:
    """``torch.Tensor(4, 2)``, and ``torch.Tensor(4)``: of numbers it makes as many, where other things are copied."""
    told = made.arguments.positional if made.name in _TENSORS and made.arguments is not None else ()
    is_size = len(told) > 1 or (len(told) == 1 and isinstance(told[0], Const) and isinstance(told[0].value, int))
    sizes = sizes_of(told) if is_size else None
    return Shape(tuple(size for size in sizes if size is not None)) if sizes and None not in sizes else None


def of_scaled(scaled: Symbol, shape_of: Callable[[Value], Shape]) -> Shape | None:
    """What a scaler of scikit-learn returns: as many rows and columns as it is given."""
    scaler = scaled.inputs[0]
    name = scaler.library_name if isinstance(scaler, Instance) else ""
    is_scaler = name.startswith("sklearn.preprocessing.") and name.endswith("Scaler")
    return shape_of(scaled.inputs[1]) if is_scaler and scaled.name in _SCALED and len(scaled.inputs) > 1 else None


def of_samples(value: Symbol) -> Shape | None:
    """The features, or the labels, of a data set of scikit-learn: a table, and a row."""
    made = value.inputs[0]
    if not isinstance(made, Symbol) or made.name not in _SAMPLES:
        return None
    place = value.detail
    if made.arguments is not None and "n_targets" in made.arguments.keywords:
        return None
    if value.name == "attribute":
        axes = {"data": 2, "target": 1}.get(place, 0)
    else:
        axes = {0: 2, 1: 1}.get(place, 0) if _is_pair(made) else 0
    return Shape(tuple(of_axis(value, axis) for axis in range(axes))) if axes else None


def _is_pair(made: Symbol) -> bool:
    told = made.arguments.keywords.get("return_X_y") if made.arguments is not None else None
    return ".make_" in made.name or (isinstance(told, Const) and told.value is True)
