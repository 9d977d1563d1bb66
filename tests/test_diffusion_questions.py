"""What rules of diffusion ask: what becomes of averages of weights, of latents, and what denoisers learn."""

from __future__ import annotations

import pytest
from asking import ask, last

from dllint.api import Context, LibraryCall, LossCall

AVERAGE = """
ema = copy.deepcopy(model).eval() if use_ema else None
for x, y in train_loader:
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    if ema is not None:
        update_ema(ema, model)
"""


@pytest.mark.parametrize(
    ("code", "used"),
    [
        ("", False),
        ("torch.save({'ema': ema.state_dict()}, 'last.pt')\n", False),
        ("ema.load_state_dict(torch.load('last.pt')['ema'])\n", False),
        ("ema = ema.to('cuda').eval()\n", False),
        ("for p in ema.parameters():\n    p.requires_grad = False\n", False),
        ("model.load_state_dict(ema.state_dict())\n", True),
        ("ema(x)\n", True),
        ("network = ema.eval()\n", True),
        ("evaluate(ema.module)\n", True),
        ("network = ema or model\n", True),
    ],
)
def test_what_becomes_of_an_average(code: str, used: bool) -> None:
    assert ask(f"import copy\n{AVERAGE}{code}", lambda ctx: [ctx.is_average_used(each) for each in ctx.averages()]) == [
        used
    ]


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("", {"model"}),
        ("network = model\n", {"model", "network"}),
        ("ema = other()\n", set()),
    ],
)
def test_what_is_averaged(code: str, names: set[str]) -> None:
    assert ask(f"import copy\n{AVERAGE}{code}", lambda ctx: ctx.names_averaged(next(iter(ctx.averages())))) == names


@pytest.mark.parametrize(
    ("weights", "expression", "factor"),
    [
        ("stabilityai/sd-vae-ft-mse", "vae.encode(x).latent_dist.sample()", 0.18215),
        ("stabilityai/sdxl-vae", "vae.encode(x, return_dict=False)[0].mode()", 0.13025),
        ("mine", "vae.encode(x).latent_dist.mean", None),
        ("stabilityai/sdxl-vae", "2 * vae.encode(x).latent_dist.mean", 0),
        ("stabilityai/sdxl-vae", "vae.decode(x).sample", 0),
    ],
)
def test_latents(weights: str, expression: str, factor: float | None) -> None:
    code = f"""
from diffusers import AutoencoderKL
vae = AutoencoderKL.from_pretrained('{weights}')
torch.relu({expression})
"""

    def asked(ctx: Context) -> float | None:
        vae = ctx.autoencoder_of(last(ctx, LibraryCall).arguments.positional[0])
        return ctx.factor_of_weights(vae) if vae is not None else 0

    assert ask(code, asked) == factor


@pytest.mark.parametrize(
    ("target", "learned"),
    [("noise", "epsilon"), ("x", "sample"), ("scheduler.get_velocity(x, noise, t)", "v_prediction"), ("noise - x", "")],
)
def test_what_is_learned(target: str, learned: str) -> None:
    code = f"""
from diffusers import DDPMScheduler
scheduler = DDPMScheduler()
for x, y in train_loader:
    noise, t = torch.randn_like(x), torch.randint(0, 1000, (8,))
    F.mse_loss(net(scheduler.add_noise(x, noise, t)), {target})
"""

    def asked(ctx: Context) -> str:
        loss = last(ctx, LossCall)
        noisy = ctx.noisy_behind(loss.input)
        return ctx.learned_of(loss.target, noisy) if noisy is not None else "no noise"

    assert ask(code, asked) == learned
