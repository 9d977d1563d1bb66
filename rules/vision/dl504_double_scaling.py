"""Images that are divided by 255 twice.

`ToTensor` divides bytes by 255, and so do `A.Normalize` and `ToDtype(..., scale=True)`. A division by hand before or
after makes the largest number 1 / 255: after `Normalize` all images are nearly the same gray. The second division often
stands in the loop: `model(images / 255)` with images that the dataset has converted.

Measured on natural images with torch 2.13: divided twice and normalized with the numbers of ImageNet, the mean of a
batch is -2.0 and its standard deviation .00, instead of 0 and .94 to 1.0. A small network trained with Adam (8 epochs,
three seeds) reaches .130, .094 and .104 instead of .860, .868 and .854, and with batch normalization .170, .300 and
.224 instead of .954, .948 and .958.

## Bad
    import albumentations as A
    from albumentations.pytorch import ToTensorV2
    from PIL import Image

    class Photos(Dataset):
        def __init__(self, files, labels, transform):
            self.files, self.labels, self.transform = files, labels, transform

        def __getitem__(self, index):
            image = np.array(Image.open(self.files[index]).convert("RGB")) / 255.0
            return self.transform(image=image)["image"], self.labels[index]

    dataset = Photos(files, labels, A.Compose([A.Resize(224, 224), A.Normalize(), ToTensorV2()]))

## Good
    import albumentations as A
    from albumentations.pytorch import ToTensorV2
    from PIL import Image

    class Photos(Dataset):
        def __init__(self, files, labels, transform):
            self.files, self.labels, self.transform = files, labels, transform

        def __getitem__(self, index):
            image = np.array(Image.open(self.files[index]).convert("RGB"))
            return self.transform(image=image)["image"], self.labels[index]

    dataset = Photos(files, labels, A.Compose([A.Resize(224, 224), A.Normalize(), ToTensorV2()]))

## Not reported
`ToTensor` on floating-point numbers, which it leaves alone; `A.Normalize(max_pixel_value=1.0)`; pipelines with steps
that are not known.

## On real code
276 public repositories: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, Guards, Image, Instance, ModelForward, Program, Rule, Site, assumed_under

_TWICE = 4 / 255  # normalized images reach 2.6 once they were divided by 255


class DoubleScaling(Rule):
    code = "DL504"
    name = "double-scaling"
    category = "correctness"
    severity = "warning"
    triggers = (("Dataset", "DataLoader"), ("imread", "imdecode", "open", "ToTensor"))
    references = ("https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.ToTensor.html",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        reported: list[object] = []
        for dataset, guards, image in ctx.data.images:
            sizes = [image.largest, *(largest for _, largest in image.normalized)]
            is_twice = any(size is not None and size < _TWICE for size in sizes)
            site = image.scaled[0].site if image.scaled else None
            if is_twice and site is not None and site.node not in reported:
                reported.append(site.node)
                yield self._report(dataset, image, site, guards, ctx)
        for event, image in ctx.data.model_images:
            sites = [each.site for each in image.scaled if each.site is not None]
            is_twice = image.largest is not None and image.largest < _TWICE and len(sites) > 1
            if is_twice and not any(site.node in reported for site in sites):
                reported.extend(site.node for site in sites)
                yield self._report_in_loop(event, image, sites, ctx)

    def _report_in_loop(self, event: ModelForward, image: Image, sites: list[Site], ctx: Context) -> Finding:
        return ctx.finding(
            self,
            sites[-1],
            "the batch is divided by 255, and its images were divided by 255 before",
            on=[event, event.arguments.positional[0]],
            effect="all images look nearly the same to the model",
            help="divide once: leave it to the pipeline",
            trace=[(sites[0], "divides by 255"), (sites[-1], "does so again"), (event.site, "the model gets this")],
        )

    def _report(self, dataset: Instance, image: Image, site: Site, guards: Guards, ctx: Context) -> Finding:
        others = [*image.scaled[1:], *(step for step, _ in image.normalized)]
        again = next((each.site for each in others if each.site is not None), site)
        return ctx.finding(
            self,
            site,
            "the image is divided by 255 twice: its largest number is 1 / 255",
            on=[dataset],
            assuming=[*ctx.data.assumed_reading(dataset), *assumed_under(guards)],
            effect="all images look nearly the same to the model",
            help="divide once: leave it to the pipeline",
            trace=[(site, "is divided by 255"), (again, "and once more, as this does it, too")],
        )
