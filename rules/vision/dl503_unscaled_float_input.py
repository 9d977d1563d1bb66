"""Images with numbers up to 255 where numbers up to 1 are meant.

`ToTensor` divides by 255 only what is bytes: of an array that was cast to `float32` it makes a tensor with numbers up
to 255. So does `v2.ToDtype(torch.float32)` without `scale=True`. `Normalize` with the numbers of ImageNet then gives
means around 500 instead of 0. That of albumentations divides by 255 itself, unless `max_pixel_value=1.0` says that the
image has numbers up to 1.

Measured on natural images with torch 2.13: normalized with the numbers of ImageNet, a batch of unscaled images has a
mean of 515 and a standard deviation of 247, instead of 0 and .94 to 1.0. A small network without batch normalization (8
epochs, three seeds) reaches .130, .094 and .104 with SGD instead of .976, .984 and .976, and .644, .608 and .736 with
Adam instead of .860, .868 and .854; with batch normalization and Adam there is no difference (.954, .948, .958).

## Bad
    from PIL import Image

    class Photos(Dataset):
        def __init__(self, files, labels, transform):
            self.files, self.labels, self.transform = files, labels, transform

        def __getitem__(self, index):
            image = np.array(Image.open(self.files[index]).convert("RGB")).astype(np.float32)
            return self.transform(image), self.labels[index]

    normalize = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    dataset = Photos(files, labels, transforms.Compose([transforms.ToTensor(), normalize]))

## Good
    from PIL import Image

    class Photos(Dataset):
        def __init__(self, files, labels, transform):
            self.files, self.labels, self.transform = files, labels, transform

        def __getitem__(self, index):
            image = np.array(Image.open(self.files[index]).convert("RGB"))
            return self.transform(image), self.labels[index]

    normalize = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    dataset = Photos(files, labels, transforms.Compose([transforms.ToTensor(), normalize]))

## Not reported
Numbers for `Normalize` that are meant for 255 (above 1), pipelines with steps that are not known, images that are
scaled later, and images that nobody normalizes: a network with batch normalization learns from those as well.

## On real code
168 public repositories: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, Guards, Image, Instance, Program, Rule, assumed_under

_UNSCALED = 100.0


# ------------------------------------------------------------------------------------------------- excuses


def is_meant_for_bytes(image: Image, normalize: Instance, ctx: Context) -> bool:
    """the numbers that it is normalized with are above 1, or not known"""
    known = [each for each in ctx.data.normalizations(normalize) if each is not None]
    return not known or any(max(each.mean) > 1 or max(each.std) > 1 for each in known)


class UnscaledFloatInput(Rule):
    code = "DL503"
    name = "unscaled-float-input"
    category = "correctness"
    severity = "warning"
    triggers = (("Dataset", "DataLoader"), ("imread", "imdecode", "open"), ("Normalize",))
    references = ("https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.ToTensor.html",)
    excuses = (is_meant_for_bytes,)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        reported: list[object] = []
        for dataset, guards, image in ctx.data.images:
            for normalize, largest in image.normalized:
                if largest is None or largest < _UNSCALED or image.origin.site is None:
                    continue
                if image.origin.site.node not in reported and not ctx.excused(self, image, normalize):
                    reported.append(image.origin.site.node)
                    yield self._report(dataset, image, normalize, guards, ctx)

    def _report(self, dataset: Instance, image: Image, normalize: Instance, guards: Guards, ctx: Context) -> Finding:
        site = image.origin.site
        assert site is not None
        used = [(normalize.site, "and is normalized as if the largest were 1")] if normalize.site is not None else []
        return ctx.finding(
            self,
            normalize.site or site,
            "the image has numbers up to 255 when it is normalized with numbers for 0 to 1",
            on=[dataset, normalize],
            assuming=[*ctx.data.assumed_reading(dataset), *assumed_under(guards)],
            effect="the input of the model is hundreds of standard deviations away from what it should be",
            help=_way_to_scale(normalize),
            trace=[(site, "is read with numbers from 0 to 255"), *used],
        )


def _way_to_scale(normalize: Instance) -> str:
    if normalize.library_name.startswith("albumentations."):
        return "leave `max_pixel_value` at 255, or divide by 255 first"
    return "divide by 255 first, or leave the image in bytes for `ToTensor`"
