"""What is known of the shapes of tensors: sizes of axes, and what they mean."""

from __future__ import annotations

import pytest
from asking import ask, last

from dllint.api import Context, LossCall, Shape

LAYERS = """\
from einops import rearrange
embed = nn.Embedding(100, 16)
conv = nn.Conv2d(3, 8, 3)
rnn = nn.LSTM(16, 4, batch_first=True, bidirectional=True)
late = nn.GRU(16, 4)
attention = nn.MultiheadAttention(8, 2)
encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, batch_first=True), 2)
for x, y in train_loader:
    steps, (state, cell) = rnn(embed(x))
    F.mse_loss({expression}, y)
"""


def shape(expression: str) -> Shape:
    """The shape of an expression over a batch."""
    found: Shape = ask(LAYERS.format(expression=expression), lambda ctx: ctx.shape(last(ctx, LossCall).input))
    return found


@pytest.mark.parametrize(
    ("expression", "meanings"),
    [
        ("conv(x)", ["batch", "channel", "height", "width"]),
        ("conv(x).flatten(2).permute(0, 2, 1)", ["batch", "", "channel"]),
        ("rearrange(conv(x), 'b c h w -> b (h w) c')", ["batch", "", "channel"]),
        ("steps", ["batch", "time", "feature"]),
        ("state[-1]", ["batch", "feature"]),
        ("late(embed(z))[0]", ["", "", "feature"]),
        ("late(embed(x).transpose(0, 1))[0]", ["time", "batch", "feature"]),
        ("steps.transpose(0, 1)", ["time", "batch", "feature"]),
        ("attention(steps, steps, steps)[0]", ["batch", "time", "feature"]),
        ("encoder(embed(x)).mean(1)", ["batch", "feature"]),
        ("steps @ steps.transpose(1, 2)", ["batch", "time", "time"]),
        ("torch.einsum('btd,bsd->bts', steps, steps)", ["batch", "time", "time"]),
        ("steps.view(steps.size(0), -1)", ["batch", ""]),
        ("steps[:, None, 1:]", ["batch", "", "time", "feature"]),
        ("torch.stack([state[-1], state[-2]], 1)", ["batch", "", "feature"]),
    ],
)
def test_meanings(expression: str, meanings: list[str]) -> None:
    found = shape(expression)
    assert found.rank == len(meanings)
    assert [size.meaning for size in found.sizes] == meanings


@pytest.mark.parametrize(
    ("expression", "sizes"),
    [
        ("steps", [None, None, 8]),
        ("torch.cat([state[-1], state[-2]], dim=1)", [None, 8]),
        ("nn.Linear(8, 3)(steps[:, -1])", [None, 3]),
        ("conv(x).mean(dim=(2, 3), keepdim=True)", [None, 8, 1, 1]),
        ("rearrange(steps, 'b t (h d) -> b h t d', h=2)", [None, 2, None, None]),
        ("torch.zeros(4, 1) + torch.zeros(5)", [4, 5]),
        ("torch.zeros(2, 3, 4).flatten(1).unsqueeze(0)", [1, 2, 12]),
        ("torch.zeros(2, 1, 4).squeeze()", [2, 4]),
        ("nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(9, 5), nn.Tanh())(z)", [None, 5]),
        ("torch.zeros(9, 4)[torch.randperm(9).flatten()]", [None, 4]),
        ("torch.zeros(9, 4)[:, torch.randperm(4)[:2]]", [9, None]),
        ("torch.cat([row.unsqueeze(0) for row in torch.zeros(9, 4)])", [None, 4]),
        ("torch.stack([row for row in torch.zeros(9, 4)], 1)", [4, None]),
    ],
)
def test_sizes(expression: str, sizes: list[int | None]) -> None:
    assert [size.known for size in shape(expression).sizes] == sizes


@pytest.mark.parametrize(
    ("expression", "sizes"),
    [
        ("steps.reshape((-1, *steps.shape[2:]))", [None, 8]),
        ("steps.reshape((-1,) + steps.shape[2:])", [None, 8]),
        ("steps.reshape(-1, *steps.shape[2:])", [None, 8]),
        ("steps.view(*steps.shape[:-1], 2, 4)", [None, None, 2, 4]),
        ("steps.view(steps.size()[:2] + (2, -1))", [None, None, 2, None]),
        ("torch.zeros((3,) + steps.shape[2:])", [3, 8]),
        ("z.view(steps.shape)", [None, None, 8]),
        ("torch.zeros(6, 5).view(2, *torch.zeros(3, 5).shape)", [2, 3, 5]),
    ],
)
def test_sizes_that_are_parts_of_a_shape(expression: str, sizes: list[int | None]) -> None:
    assert [size.known for size in shape(expression).sizes] == sizes


def test_parts_of_a_shape_of_unknown_rank() -> None:
    assert [size.known for size in shape("z.view(*z.shape[:-1], 4, 8)").back] == [4, 8]
    assert [size.known for size in shape("z.view(*z.shape[:-1], 4, -1)").back] == [4, None]
    assert shape("z.view(*z.shape[:-1], *x.shape)").is_unknown
    assert shape("z.reshape((-1, *z.shape[2:]))").axis(0).known is None
    assert shape("z.view(*z.shape[other:], 3)").is_unknown


@pytest.mark.parametrize("expression", ["z", "x[z > 0]", "x.view(z.shape)", "net[z](x)[0]", "torch.cat([x, z], z)",
                                        "torch.zeros(9, 4)[z]", "torch.cat([each for each in z])",
                                        "nn.Sequential(nn.Flatten(), made(), nn.ReLU())(z)"])  # fmt: skip
def test_what_is_not_known(expression: str) -> None:
    assert shape(expression).rank is None


@pytest.mark.parametrize("net", ["nn.Linear(9, 5)", "nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(9, 5))"])
def test_places_in_the_rows_of_a_matrix_are_one_for_each(net: str) -> None:
    assert shape(f"{net}(x).gather(1, y)").may_be_column


def test_other_orders_than_the_default_are_not_guessed() -> None:
    assert ask(
        "made = DataLoader(data, collate_fn=joined)\nfor x, y in made:\n    F.mse_loss(x, y)\n",
        lambda ctx: ctx.shape(last(ctx, LossCall).input).is_unknown,
    )


ANNOTATED = """\
from jaxtyping import Float, Int
from torch import Tensor


class Model(nn.Module):
    def forward(self, x: Float[Tensor, "batch channel height width"], mask: Float[Tensor, "batch #time 3"],
                many: Float[Tensor, "*batch dim"], plain: Tensor, tokens: Int[torch.Tensor, "time=16 batch _"]):
        return F.mse_loss({expression}, y)
"""


def annotated(expression: str) -> Shape:
    code = ANNOTATED.format(expression=expression)
    found: Shape = ask(code, lambda ctx: ctx.shape(last(ctx, LossCall).input), kind="class")
    return found


@pytest.mark.parametrize(
    ("expression", "meanings"),
    [
        ("x", ["batch", "channel", "height", "width"]),
        ("x.permute(0, 2, 3, 1)", ["batch", "height", "width", "channel"]),
        ("mask.transpose(0, 1)", ["time", "batch", ""]),
        ("tokens", ["", "batch", ""]),
    ],
)
def test_meanings_by_annotations(expression: str, meanings: list[str]) -> None:
    found = annotated(expression)
    assert [size.meaning for size in found.sizes] == meanings and found.rank == len(meanings)


def test_sizes_by_annotations() -> None:
    assert [size.known for size in annotated("mask").sizes] == [None, None, 3]
    assert annotated("tokens").sizes[0].known == 16
    assert annotated("many").rank is None and annotated("many").means(-1, "feature")
    assert annotated("plain").is_unknown
    assert annotated("x.view(x.shape[0], -1)").sizes[0].meaning == "batch"


def test_one_name_is_one_size() -> None:
    def question(ctx: Context) -> tuple[bool, bool]:
        call = last(ctx, LossCall)
        given, wanted = (ctx.shape(value).sizes for value in (call.input, call.target))
        return given[0].same(wanted[0]), given[1].same(wanted[1])

    code = ANNOTATED.format(expression="x").replace("(x, y)", "(x, mask)")
    assert ask(code, question, kind="class") == (True, False)


def test_the_sum_of_embeddings_is_no_row() -> None:
    assert shape("embed(x).sum(1)").rank is None
    assert shape("nn.Linear(16, 1)(z).sum(1)").rank == 1
