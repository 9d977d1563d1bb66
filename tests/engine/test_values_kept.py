"""Values that a program keeps in other ways than by an assignment: what it registers, iterates over, or repeats."""

from __future__ import annotations

from asking import ask, last

from dllint.api import Context, LossCall, Symbol


def origin(ctx: Context) -> str:
    """What computed the input of the last loss."""
    found = {str(getattr(each.value, "name", "")) for each in ctx.origins(last(ctx, LossCall).input)}
    return ", ".join(sorted(found))


def shape(ctx: Context) -> str:
    return str(ctx.shape(last(ctx, LossCall).input))


MODULE = """
class Net(nn.Module):
    def __init__(self, wide):
        super().__init__()
        {made}

    def forward(self, x):
        return {returned}

F.mse_loss(Net(some())(x), y)
"""


def of_module(made: str, returned: str) -> str:
    return MODULE.format(made=made, returned=returned)


class TestRegistered:
    def test_a_buffer_and_a_parameter_are_attributes(self) -> None:
        assert ask(of_module('self.register_buffer("seen", torch.zeros(4, 2))', "self.seen"), shape) == "(4, 2)"
        made = 'self.register_parameter("scale", nn.Parameter(torch.Tensor(3, 5)))'
        assert ask(of_module(made, "F.linear(x, self.scale)"), shape) == "(..., 3)"

    def test_a_buffer_that_is_filled_later_is_not_none(self) -> None:
        code = of_module('self.register_buffer("seen", None)', "x if self.seen is None else torch.zeros(4, 2)")
        assert ask(code, origin) == "torch.zeros, unknown"

    def test_of_a_name_that_is_computed_nothing_is_known(self) -> None:
        assert ask(of_module("self.register_buffer(wide, torch.zeros(4, 2))", "self.seen"), shape) == "(...)"


class TestOneOfSeveralLayers:
    def test_what_it_returns_is_what_the_layer_returns(self) -> None:
        made = "self.out = nn.Linear(4, 1) if wide else nn.Conv2d(4, 1, 1)"
        assert ask(of_module(made, "self.out(x)"), origin) == "torch.nn.Conv2d(), torch.nn.Linear()"

    def test_so_it_is_behind_a_wrapper(self) -> None:
        assert ask("F.mse_loss(nn.DataParallel(nn.Linear(4, 1))(x), y)", origin) == "torch.nn.Linear()"


class TestTensorsOfGivenSizes:
    def test_numbers_are_sizes_and_other_things_are_copied(self) -> None:
        assert ask("F.mse_loss(torch.Tensor(4, 2), y)", shape) == "(4, 2)"
        assert ask("F.mse_loss(torch.FloatTensor(4), y)", shape) == "(4)"
        assert ask("F.mse_loss(torch.FloatTensor([4, 2]), y)", shape) == "(2)"


class TestNext:
    CLASS = """
    class Forever:
        def __init__(self, batches):
            self.batches, self.iterator = batches, iter(batches)

        def __next__(self):
            try:
                return next(self.iterator)
            except StopIteration:
                self.iterator = iter(self.batches)
                return next(self.iterator)
    """

    def test_of_an_object_of_the_project_it_is_what_its_method_returns(self) -> None:
        code = f"{self.CLASS}\n    x, y = next(Forever(train_loader))\n    F.mse_loss(net(x), y)\n"

        def target(ctx: Context) -> set[str]:
            sources = ctx.sources(last(ctx, LossCall).target)
            return {each.name for each in sources if isinstance(each, Symbol)} | {
                ctx.class_name(each) for each in ctx.sources(last(ctx, LossCall).target)
            }

        assert {"next", "iter", "DataLoader"} <= ask(code, target)


class TestSelected:
    def test_what_a_mask_selects_comes_from_where_the_whole_does(self) -> None:
        code = "F.mse_loss(torch.sigmoid(net(x)).masked_select(mask), y)"
        assert ask(code, origin) == "torch.sigmoid"
        assert ask("F.mse_loss(torch.masked_select(torch.sigmoid(net(x)), mask), y)", origin) == "torch.sigmoid"
