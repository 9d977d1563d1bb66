"""An image and its mask that are flipped, cropped or turned by two calls, each with its own random numbers.

Each call of a random transform draws new numbers, and so does each coin that code of the project tosses. The image may
be flipped while its mask is not, and a crop shows another part of it, so the mask belongs to other pixels, in most
samples, and no error says so. A transform that goes over the entries of a sample, and draws an angle in that loop, does
the same in one call.

Measured on torch 2.13 (squares in 16 x 16 images, random flips, 400 steps, three seeds): an intersection over union of
.050, .005 and .023 with two calls, and of .964, .975 and .994 where both are flipped together.

## Bad
    from PIL import Image
    from torch.utils.data import Dataset

    augment = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor()])

    class Masks(Dataset):
        def __len__(self):
            return 100

        def __getitem__(self, index):
            image = Image.open(f"images/{index}.png")
            mask = Image.open(f"masks/{index}.png")
            return augment(image), augment(mask)

    loader = DataLoader(Masks(), batch_size=8)
    for x, y in loader:
        print(x.shape)

## Good
    from PIL import Image
    from torch.utils.data import Dataset

    to_tensor = transforms.ToTensor()

    class Masks(Dataset):
        def __len__(self):
            return 100

        def __getitem__(self, index):
            image, mask = to_tensor(Image.open(f"images/{index}.png")), to_tensor(Image.open(f"masks/{index}.png"))
            both = transforms.RandomHorizontalFlip()(torch.cat([image, mask]))
            return both[:3], both[3:]

    loader = DataLoader(Masks(), batch_size=8)
    for x, y in loader:
        print(x.shape)

## Not reported
Datasets that seed the generator before each call, or put its state back; two views of one image; pairs of which neither
is a mask, a depth map or the like by its name (they may be two images of one class); transforms that are the same for
every image (`p=1`), change only colors, or take both at once; coins that do not follow one another, or turn more than
one variable; numbers drawn in a loop over a sample that a condition keeps from its image or its target, or of which the
entries are not known.

## On real code
283 public repositories, of which 28 augment images and have masks or the like: no finding. Masks through a second call
of albumentations add none in 523. Numbers that are drawn for each part of a sample: no finding in 763.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, permutations

from dllint.api import (
    Assumption,
    Const,
    Context,
    Finding,
    Guard,
    Guards,
    Instance,
    LibraryCall,
    Program,
    RandomSeeded,
    Rule,
    Site,
    Symbol,
    Table,
    TransformCall,
    TransformStep,
    Value,
    alternatives,
    assumed_under,
)

_READS = frozenset(("PIL.Image.open", "cv2.imread", "imageio.imread", "skimage.io.imread", "matplotlib.pyplot.imread",
                    "torchvision.io.read_image", "PIL.Image.fromarray", "numpy.load"))  # fmt: skip
_COINS = ("random.", "numpy.random.", "torch.rand")
_TURNS = re.compile(r"(?i)flip|mirror|rot90|rotate\(|::\s*-1")
_IMAGES = re.compile(r"(?i)(.*_)?(img|image|im|photo|picture|rgb)s?(_.*)?")
_TARGETS = re.compile(r"(?i)(.*_)?(target|label|gt|density|den)s?(_.*)?")
_RESTORING = ("set_rng_state", "setstate", "set_state", "fork_rng")

# ------------------------------------------------------------------------------------------------- excuses


def draws_the_same(place: Site, dataset: Instance, ctx: Context) -> bool:
    """the random generator is seeded, or put back, when a sample is fetched"""
    return any(
        isinstance(event, RandomSeeded)
        or (isinstance(event, LibraryCall) and event.name.rpartition(".")[2] in _RESTORING)
        for event in ctx.data.fetching(dataset)
    )


class PairedInputsAugmentedIndependently(Rule):
    code = "DL420"
    name = "paired-inputs-augmented-independently"
    category = "correctness"
    severity = "warning"
    triggers = (
        ("transforms", "albumentations", "Compose", "fliplr", "flip", "hflip", "transpose", "mirror"),
        ("__getitem__",),
    )
    references = ("https://docs.pytorch.org/vision/stable/auto_examples/transforms/plot_transforms_e2e.html",)
    excuses = (draws_the_same,)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        reported: set[int] = set()
        for dataset in ctx.data.made:
            calls = list(_calls(dataset, ctx))
            for call in calls:
                place = call.result.site
                if place is None or id(place.node) in reported or not _is_dense(call, ctx):
                    continue
                other = next((each for each in calls if _is_beside(each, call, ctx)), None)
                step = _random_step(call, other, ctx) if other is not None else None
                if other is not None and step is not None and not ctx.excused(self, place, dataset):
                    reported.add(id(place.node))
                    yield self._report(place, call, other, step, dataset, ctx)
            for first, second in _coins(dataset, ctx):
                if id(second.site.node) not in reported:
                    reported.add(id(second.site.node))
                    yield self._report_coins(first, second, dataset, ctx)
            for part in _drawn_for_parts(dataset, ctx):
                if id(part.draw.site.node) not in reported and not ctx.excused(self, part.draw.site, dataset):
                    reported.add(id(part.draw.site.node))
                    yield self._report_part(part, dataset, ctx)
                    break

    def _report_part(self, part: _Part, dataset: Instance, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            part.draw.site,
            f"`{part.image}` and `{part.target}` are moved by numbers that are drawn for each of them",
            on=[dataset, part.call.transform],
            assuming=[
                *assumed_under((*part.call.guards, *part.guards)),
                Assumption("name", f"`{part.target}` belongs to the image pixel by pixel, as its name says"),
                *ctx.data.assumed_reading(dataset),
            ],
            effect="in most samples the target belongs to other pixels: the model learns an average",
            help="draw the numbers before the loop over the sample",
            trace=[
                (Site(part.draw.site.module, part.loop), "this goes over the parts of one sample"),
                (part.draw.site, "and draws a number for each"),
            ],
        )

    def _report_coins(self, first: _Coin, second: _Coin, dataset: Instance, ctx: Context) -> Finding:
        target = first if _is_target(first.name, ctx) else second
        return ctx.finding(
            self,
            second.site,
            f"`{first.name}` and `{second.name}` are flipped by two coins, each with a number of its own",
            on=[dataset],
            assuming=[
                Assumption("name", f"`{target.name}` belongs to the image pixel by pixel, as its name says"),
                *ctx.data.assumed_reading(dataset),
            ],
            effect="in half of the samples the target belongs to other pixels: the model learns an average",
            help="draw one number for both",
            trace=[(first.site, f"`{first.name}` is flipped here"), (second.site, f"`{second.name}` is flipped here")],
        )

    def _report(
        self,
        place: Site,
        call: TransformCall,
        other: TransformCall,
        step: TransformStep,
        dataset: Instance,
        ctx: Context,
    ) -> Finding:
        name = _name_of_target(call, ctx)
        hops = [(other.result.site, "one image is transformed here")] if other.result.site is not None else []
        made = (
            [(step.value.site, f"`{step.kind.removeprefix('A.')}` draws new numbers each time")]
            if step.value.site
            else []
        )
        return ctx.finding(
            self,
            place,
            f"`{name}` is augmented by a call of its own, and does not lie on its image any more",
            on=[call.transform, other.transform],
            assuming=[
                *assumed_under((*call.guards, *other.guards, *step.guards)),
                Assumption("name", f"`{name}` belongs to the image pixel by pixel, as its name says"),
                *ctx.data.assumed_reading(dataset),
            ],
            effect="in most samples the target belongs to other pixels: the model learns an average",
            help="transform both in one call (torchvision.transforms.v2, albumentations), or with the same parameters",
            trace=[*made, *hops, (place, "and this one here, with other random numbers")],
        )


@dataclass(frozen=True)
class _Coin:
    """A condition that a number decides which its test draws: what stands under it turns one variable."""

    site: Site
    name: str


@dataclass(frozen=True)
class _Part:
    """A number that a transform draws in a loop over the entries of a sample, for an image and for its target."""

    draw: LibraryCall
    loop: ast.For
    call: TransformCall
    image: str
    target: str
    guards: Guards


def _drawn_for_parts(dataset: Instance, ctx: Context) -> Iterator[_Part]:
    """The numbers by which a transform of the project moves the pixels of an image and its target, each by its own."""
    for call in ctx.data.transformed(dataset):
        held = [option for _, option in alternatives(call.given) if isinstance(option, Table)]
        keys = [key for each in held for key in each.entries() if isinstance(key, str)]
        image = next((key for key in keys if _IMAGES.fullmatch(key)), "")
        target = next((key for key in keys if _is_target(key, ctx) and not _IMAGES.fullmatch(key)), "")
        for step in ctx.data.steps(call.transform) if image and target else ():
            drawn = ctx.data.drawn_for_parts(step.value)
            known = {guard.key() for draw, _ in drawn for guard in draw.guards}
            around = [guard for guard in step.guards if guard.key() not in known]  # not of a draw itself
            for draw, loop in drawn:
                asked = [_entries_asked(guard, loop, (image, target)) for guard in draw.guards]
                others = [guard for guard, answer in zip(draw.guards, asked, strict=True) if answer is None]
                left = [guard for guard in others if guard.negated().key() not in known]  # all ways draw then
                if all(answer is not False for answer in asked):
                    yield _Part(draw, loop, call, image, target, (*around, *left))


def _entries_asked(guard: Guard, loop: ast.For, keys: tuple[str, ...]) -> bool | None:
    """Whether a condition on the key of an entry, ``"name" in key``, holds for all of some keys; ``None`` where it is
    none on the key."""
    target = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else loop.target
    name, test = getattr(target, "id", ""), guard.node
    if name not in guard.names:
        return None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or guard.relation not in ("in", "=="):
        return False
    left, right = test.left, test.comparators[0]
    if guard.relation == "in" and isinstance(left, ast.Constant) and getattr(right, "id", "") == name:
        return all((str(left.value) in key) is guard.holds for key in keys)
    sides = [each for each in (left, right) if getattr(each, "id", "") != name]
    wanted = _texts(sides[0]) if len(sides) == 1 else None
    return wanted is not None and all((key in wanted) is guard.holds for key in keys)


def _texts(node: ast.expr) -> list[object] | None:
    """The constants that are written, one or several in a list, if they are."""
    items = node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else [node]
    constants = [each.value for each in items if isinstance(each, ast.Constant)]
    return list(constants) if len(constants) == len(items) else None


def _coins(dataset: Instance, ctx: Context) -> Iterator[tuple[_Coin, _Coin]]:
    """The coins, one after the other, of which one turns an image and one its target, when a sample is fetched."""
    draws = [event for event in ctx.data.fetching(dataset) if isinstance(event, LibraryCall)]
    tossed = [coin for event in draws if event.name.startswith(_COINS) and (coin := _coin(event, ctx)) is not None]
    for first, second in permutations(tossed, 2):
        block = next(ctx.ancestors(first.site, ast.AST), None)
        following = {id(a): b for a, b in pairwise(getattr(block, "body", ()))}
        names = (first.name, second.name)
        is_pair = any(map(_IMAGES.fullmatch, names)) and any(_is_target(name, ctx) for name in names)
        if is_pair and first.name != second.name and following.get(id(first.site.node)) is second.site.node:
            yield first, second


def _coin(draw: LibraryCall, ctx: Context) -> _Coin | None:
    """The condition in whose test a number is drawn, if all that stands under it turns one variable."""
    around = next(ctx.ancestors(draw.site, ast.If), None)
    compared = around.test if around is not None else None
    sides = [compared.left, *compared.comparators] if isinstance(compared, ast.Compare) else [compared]
    if around is None or around.orelse or not any(each is draw.site.node for each in sides):
        return None
    names = {_turned(statement) for statement in around.body}
    name = names.pop() if len(names) == 1 else ""
    return _Coin(Site(draw.site.module, around), name) if name else None


def _turned(statement: ast.stmt) -> str:
    """The variable that a statement flips or turns: ``image = image.transpose(FLIP_LEFT_RIGHT)``."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if not isinstance(target, ast.Name) or not isinstance(statement, ast.Assign):
        return ""
    made_of = {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}
    return target.id if target.id in made_of and _TURNS.search(ast.unparse(statement.value)) else ""


def _is_target(name: str, ctx: Context) -> bool:
    return _TARGETS.fullmatch(name) is not None or ctx.speaks_of("dense-target", name)


def _calls(dataset: Instance, ctx: Context) -> Iterator[TransformCall]:
    """The calls that transform an image of a sample, or a target alone: `transform(image=x, mask=y)["mask"]`."""
    for call in ctx.data.transformed(dataset):
        taken, given = _taken(call), call.result.arguments.keywords if call.result.arguments is not None else {}
        if len(taken) > 1 and any(ctx.speaks_of("dense-target", name) for name in taken):
            continue  # the image with its target
        call = replace(call, given=given[taken[0]]) if len(taken) == 1 else call
        if _read_by(call.given, ctx) or taken in (["mask"], ["masks"]):  # which may be made of anything: of runs, say
            yield call


def _taken(call: TransformCall) -> list[str]:
    """What a transform of albumentations is given by its name, and returns for it."""
    given = call.result.arguments.keywords if call.result.arguments is not None else {}
    return [name for name in _entries_of(call.result) if name in given]


def _entries_of(result: Symbol) -> list[str]:
    """The entries that are looked up in what a transform of albumentations returns."""
    held = (each for each in result.attributes.values() if isinstance(each, Symbol) and each.name == "item")
    keys = (each.inputs[1] for each in held)
    return [key.value for key in keys if isinstance(key, Const) and isinstance(key.value, str)]


def _random_step(call: TransformCall, other: TransformCall, ctx: Context) -> TransformStep | None:
    """The step that moves the pixels of one of two images, each time otherwise."""
    steps = (*ctx.data.moving_pixels(call.transform), *ctx.data.moving_pixels(other.transform))
    return next((step for step in steps if ctx.is_random(step)), None)


def _read_by(value: Value, ctx: Context) -> list[Value]:
    """The calls that read the images which a value is made from."""
    sources = ctx.sources_up_to(value, _is_measure)
    return [each for each in sources if isinstance(each, Symbol) and each.name in _READS]


def _is_measure(value: Value) -> bool:
    """Whether a value is how large an image is: what is made of that has none of its pixels."""
    is_attribute = isinstance(value, Symbol) and value.name == "attribute"
    return is_attribute and isinstance(value, Symbol) and value.detail in ("size", "shape", "width", "height")


def _is_dense(call: TransformCall, ctx: Context) -> bool:
    return bool(_name_of_target(call, ctx))


def _name_of_target(call: TransformCall, ctx: Context) -> str:
    """The name of what is transformed, if it speaks of a target that is an image."""
    taken = _taken(call)
    names = [ctx.name_of(each) for each in (call.given, *_read_by(call.given, ctx), call.result)]
    names += taken if len(taken) == 1 else []
    return next((name for name in names if name and ctx.speaks_of("dense-target", name)), "")


def _is_beside(one: TransformCall, call: TransformCall, ctx: Context) -> bool:
    """Whether a call transforms another image, which is no target, in the same sample."""
    if one is call or _is_dense(one, ctx) or not ctx.consistent(one.guards, call.guards):
        return False
    own = _read_by(call.given, ctx)
    return not any(each is known for each in _read_by(one.given, ctx) for known in own)
