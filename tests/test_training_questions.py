"""What rules of losses and loops ask: shapes, what is frozen, precision, norms, and what becomes of losses."""

from __future__ import annotations

import pytest
from asking import ask, last

from dllint.api import Backward, Context, LossCall, ModelForward, OptimizerCreated, OptimizerStep
from dllint.interp.ask.shape import Shape


class TestShapes:
    """``x`` is the input of the loss; the batch is that of a loader."""

    def shape(self, expression: str) -> Shape:
        code = f"for x, y in train_loader:\n    F.mse_loss({expression}, y)\n"
        found: Shape = ask(code, lambda ctx: ctx.shape(last(ctx, LossCall).input))
        return found

    @pytest.mark.parametrize(
        "expression",
        ["x.view(-1, 1)", "nn.Linear(8, 1)(x)", "x.view(-1).unsqueeze(1)", "net[0](x).gather(1, y.unsqueeze(1))"],
    )
    def test_columns(self, expression: str) -> None:
        found = self.shape(expression)
        assert found.is_column and not found.is_row

    @pytest.mark.parametrize(
        "expression",
        [
            "x.view(-1)",
            "x.flatten()",
            "nn.Linear(8, 1)(x).squeeze(1)",
            "nn.Linear(8, 4)(x).max(1)[0]",
            "2 * x.view(-1)",
        ],
    )
    def test_rows(self, expression: str) -> None:
        found = self.shape(expression)
        assert found.is_row and not found.is_column

    @pytest.mark.parametrize(
        "expression", ["x", "x.view(z.shape)", "nn.Linear(8, 3)(x)", "x.unsqueeze(1)", "x.view(4, 8)"]
    )
    def test_neither(self, expression: str) -> None:
        found = self.shape(expression)
        assert not (found.is_row or found.is_column)


@pytest.mark.parametrize(
    ("code", "frozen"),
    [
        ("net.requires_grad_(False)\n", 1),
        ("for p in net[0].parameters():\n    p.requires_grad = False\n", 1),
        ("net.requires_grad_(True)\n", 0),
        ("net.requires_grad = False\n", 0),
    ],
)
def test_what_is_frozen(code: str, frozen: int) -> None:
    assert ask(code, lambda ctx: len(ctx.freezes)) == frozen


@pytest.mark.parametrize(
    ("code", "precision"),
    [
        ("net.half()\n", "float16"),
        ("net.to('cuda', torch.bfloat16)\n", "bfloat16"),
        ("net.half()\nnet.float()\nnet.cuda()\n", "float32"),
        ("net.half()\nnet.to(dtype=some)\n", None),
        ("net.half()\nnet[0].requires_grad_(False)\n", None),
        ("net.cuda()\n", None),
    ],
)
def test_precision_of_parameters(code: str, precision: str | None) -> None:
    def question(ctx: Context) -> str | None:
        step = last(ctx, OptimizerStep)
        cast = ctx.cast_of(ctx.parameters_of(step.optimizer)[0][0], step)
        return cast.precision if cast is not None else None

    assert ask(code + "optimizer.step()\n", question) == precision


@pytest.mark.parametrize(
    ("network", "has"),
    [
        ("nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))", True),
        ("nn.Sequential(nn.BatchNorm2d(2, track_running_stats=False))", False),
        ("nn.Sequential(nn.LayerNorm(2))", False),
        ("torchvision.models.resnet18()", True),
        ("nn.Sequential(*list(torchvision.models.resnet18().children())[:-1])", True),
        ("torchvision.models.vgg16()", False),
        ("torchvision.models.vgg16_bn()", True),
        ("timm.create_model('resnet50d', pretrained=True)", True),
        ("timm.create_model('vit_base_patch16_224')", False),
        ("torchvision.models.get_model(name)", False),
    ],
)
def test_batch_norms(network: str, has: bool) -> None:
    code = f"import timm, torchvision\nmodel = {network}\nmodel(x)\n"
    assert ask(code, lambda ctx: ctx.has_batch_norm(last(ctx, ModelForward).model)) is has


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("total += loss", ["total"]),
        ("total = total + 2 * loss", ["total"]),
        ("losses.append(loss)", ["losses"]),
        ("loss += 1; total += loss", ["total"]),
        ("total += loss.item()", []),
        ("total = loss", []),
        ("loss = loss.item(); total += loss", []),
    ],
)
def test_where_a_loss_is_kept(line: str, kept: list[str]) -> None:
    body = "".join(f"    {each}\n" for each in ("loss = F.cross_entropy(net(x), y)", *line.split("; ")))
    code = f"total, losses = 0, []\nfor x, y in train_loader:\n{body}"
    assert ask(code, lambda ctx: [each.target for each in ctx.kept_in(last(ctx, LossCall).result)]) == kept


def test_where_a_loss_of_several_arms_is_kept() -> None:
    arms = "if binary:\n        loss = F.cross_entropy(net(x), y)\n    else:\n        loss = F.mse_loss(net(x), y)"
    code = f"total = 0\nfor x, y in train_loader:\n    {arms}\n    loss.backward()\n    total += loss\n"
    assert ask(code, lambda ctx: [each.target for each in ctx.kept_in(last(ctx, Backward).loss)]) == ["total"]


_MADE = "def make(net, lr):\n    return torch.optim.SGD(net.parameters(), lr=lr)\n\noptimizer = make(net, args.rate)\n"


def test_what_a_rate_is_called_on_the_way() -> None:
    names = ask(_MADE, lambda ctx: [name for _, name in ctx.rate_names(last(ctx, OptimizerCreated))])
    assert names == ["lr", "args.rate"]


@pytest.mark.parametrize(
    ("line", "is_set"),
    [
        ("optimizer.param_groups[0]['lr'] = 0.1", True),
        ("for g in optimizer.param_groups: g['lr'] *= 0.5", True),
        ("adjust(optimizer)", True),
        ("adjust(other)", False),
        ("for g in optimizer.param_groups: g['momentum'] = 0.5", False),
        ("for g in other.param_groups: g['lr'] = 0.5", False),
        ("print(optimizer.param_groups[0]['lr'])", False),
    ],
)
def test_where_a_rate_is_set_by_hand(line: str, is_set: bool) -> None:
    helper = "def adjust(opt):\n    for g in opt.param_groups:\n        g['lr'] = 0.1\n\n"
    code = f"{helper}{_MADE}for x, y in train_loader:\n    {line}\n    optimizer.step()\n"

    def setting(ctx: Context) -> bool:
        step = last(ctx, OptimizerStep)
        return ctx.rate_setting(ctx.loops_around(step)[0], step.optimizer) is not None

    assert ask(code, setting) is is_set


@pytest.mark.parametrize(
    ("line", "is_written"),
    [("for g in optimizer.param_groups: g['lr'] *= 0.5", True), ("print(optimizer.param_groups[0]['lr'])", False)],
)
def test_whether_rates_are_written(line: str, is_written: bool) -> None:
    assert ask(f"{_MADE}{line}\n", lambda ctx: ctx.are_rates_written()) is is_written


def test_what_goes_backward_by_name() -> None:
    code = "loss = F.cross_entropy(net(x), y)\ntotal = 2 * loss\nother = 3 * loss\ntotal.backward()\n"
    found = ask(code, lambda ctx: ctx.names_sent_backward(last(ctx, LossCall).site))
    assert "total" in found and "loss" in found and "other" not in found


@pytest.mark.parametrize(
    ("line", "predates"), [("print(loss.data[0])", False), ("x = V(x, volatile=True)", True), ("", False)]
)
def test_code_for_torch_before_no_grad(line: str, predates: bool) -> None:
    code = f"loss = F.cross_entropy(net(x), y)\n{line}\n"
    assert ask(code, lambda ctx: ctx.predates_no_grad(last(ctx, LossCall).site)) is predates


def test_gradients_under_a_decorator_of_the_project() -> None:
    code = """
    def quiet(function):
        return torch.no_grad()(function)

    @quiet
    def run(x):
        return net(x)

    run(x)
    """
    assert ask(code, lambda ctx: last(ctx, ModelForward).grad) == "unknown"
