"""Blue taken for red: an image that OpenCV has read goes through a pipeline for RGB.

`cv2.imread` gives blue, green, red. A pretrained model, and the numbers of ImageNet that its input is normalized with,
are for red, green, blue. Nothing fails: the model sees blue faces and orange skies, and fine-tuning has to unlearn it.

Measured on natural images with opencv 5.0 and torch 2.13: normalized with the numbers of ImageNet, the means of the
three channels are -.27, .04 and .36 instead of 0 for all; the standard deviations stay, so that a look at the batch
shows nothing.

## Bad
    import cv2
    from PIL import Image

    class Photos(Dataset):
        def __init__(self, files, labels, transform):
            self.files, self.labels, self.transform = files, labels, transform

        def __getitem__(self, index):
            image = cv2.imread(self.files[index])
            return self.transform(Image.fromarray(image)), self.labels[index]

    normalize = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    dataset = Photos(files, labels, transforms.Compose([transforms.ToTensor(), normalize]))

## Good
    import cv2
    from PIL import Image

    class Photos(Dataset):
        def __init__(self, files, labels, transform):
            self.files, self.labels, self.transform = files, labels, transform

        def __getitem__(self, index):
            image = cv2.cvtColor(cv2.imread(self.files[index]), cv2.COLOR_BGR2RGB)
            return self.transform(Image.fromarray(image)), self.labels[index]

    normalize = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    dataset = Photos(files, labels, transforms.Compose([transforms.ToTensor(), normalize]))

## Not reported
Images that are converted (`cvtColor`, `[..., ::-1]`), read in gray or with `IMREAD_COLOR_RGB`; pipelines that normalize
with other numbers, or with those of ImageNet in the order of OpenCV; pipelines with steps that are not known, and
images that only a network trained from scratch sees, without these numbers; projects that speak of gray images (X-rays,
spectrograms, thermal cameras), whose channels are alike.

## Fix (unsafe)
Converts the image where it is read. Unsafe because a model that was trained on the wrong order now gets the right one.

## On real code
276 public repositories: no finding.

Off by default: in 28 batches of unread repositories all 5 findings were doubtful: their images turned out to be gray,
which nothing in the code says.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import (
    Context,
    Edits,
    Finding,
    Guards,
    Image,
    Instance,
    Program,
    Rule,
    Site,
    assumed_under,
    replace_range,
    spelling_of,
)

_IMAGENET = (0.485, 0.456, 0.406)
_GRAY = (
    r"(?i)x-?ray|radiograph|mammogra|ultrasound|\bmri\b|\bct[ _-]?(scan|slice|image)|dicom|spectrogram|thermal|infrared"
    r"|fingerprint|(?<!\.)\bgr[ae]y[ _-]?scale"
)


# ------------------------------------------------------------------------------------------------- excuses


def is_in_order(image: Image, normalize: Instance, ctx: Context) -> bool:
    """red is the first channel where it is normalized, or nobody knows which is"""
    return image.order != "bgr"


def has_other_numbers(image: Image, normalize: Instance, ctx: Context) -> bool:
    """it is not normalized with the numbers of ImageNet for red, green and blue"""
    known = [each for each in ctx.data.normalizations(normalize) if each is not None]
    means = [each.mean for each in known]
    return not means or any(
        len(m) != 3 or any(abs(a - b) > 0.01 for a, b in zip(m, _IMAGENET, strict=True)) for m in means
    )


def is_of_gray_images(image: Image, normalize: Instance, ctx: Context) -> bool:
    """the code speaks of gray images, whose channels are alike"""
    return ctx.project_mentions(_GRAY, where="here")


class BgrAsRgb(Rule):
    code = "DL505"
    name = "bgr-as-rgb"
    category = "correctness"
    severity = "warning"
    default = False
    triggers = (("Dataset", "DataLoader"), ("imread", "imdecode"), ("Normalize",))
    fix_safety = "unsafe"
    references = ("https://docs.opencv.org/4.x/d4/da8/group__imgcodecs.html",)
    excuses = (is_in_order, has_other_numbers, is_of_gray_images)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        reported: list[object] = []
        for dataset, guards, image in ctx.data.images:
            site = image.origin.site
            for normalize, _ in image.normalized if site is not None and site.node not in reported else ():
                if site is not None and not ctx.excused(self, image, normalize):
                    reported.append(site.node)
                    yield self._report(dataset, image, normalize, guards, ctx)
                    break

    def _report(self, dataset: Instance, image: Image, normalize: Instance, guards: Guards, ctx: Context) -> Finding:
        site = image.origin.site
        assert site is not None
        used = [(normalize.site, "and is normalized with the numbers of red, green, blue")] if normalize.site else []
        return ctx.finding(
            self,
            site,
            "OpenCV reads blue, green, red: the pipeline takes blue for red",
            on=[dataset, normalize],
            assuming=[*ctx.data.assumed_reading(dataset), *assumed_under(guards)],
            effect="a pretrained model sees colors that it has never seen, and its features fit less",
            help="convert the image: `cv2.cvtColor(image, cv2.COLOR_BGR2RGB)`",
            trace=[(site, "is read as blue, green, red"), *used],
            fix=("Convert to red, green, blue", _converted(site, ctx)),
        )


def _converted(site: Site, ctx: Context) -> Edits:
    library = spelling_of("cv2", site)
    return (
        replace_range(site, f"{library}.cvtColor({ctx.source_of(site)}, {library}.COLOR_BGR2RGB)")
        if library
        else Edits()
    )
