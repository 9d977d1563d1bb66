"""Inputs and targets that are paired by their positions in two listings of directories.

`os.listdir`, `os.scandir`, `glob.glob` and the methods of `Path` give the entries of a folder in an arbitrary order:
that of hashes, of creation, or of the free places in the folder. Two folders have two orders. So `images[3]` and
`masks[3]` are files of different samples, on some machines or on all, and nothing fails: the sizes fit, and the loss
falls as far as the mean target takes it.

Measured on Linux with two folders of 1,000 files: on ext4, where the names of one end in `_mask`, 999 of the pairs are
wrong, and none where all names are equal; on tmpfs 1,000 are wrong, with equal names, too, if the files were written in
another order. With sorted lists none is. A small network for segmentation that learns from such pairs has an
intersection over union of 0, 0 and 0 on new images (three seeds), and of .93, 1.00 and .92 with the right ones; its
loss falls to .25 all the same.

## Bad
    import os
    from torch.utils.data import Dataset

    class Leaves(Dataset):
        def __init__(self, image_dir, mask_dir):
            self.images = os.listdir(image_dir)
            self.masks = os.listdir(mask_dir)

        def __getitem__(self, index):
            return read(self.images[index]), read(self.masks[index])

## Good
    import os
    from torch.utils.data import Dataset

    class Leaves(Dataset):
        def __init__(self, image_dir, mask_dir):
            self.images = sorted(os.listdir(image_dir))
            self.masks = sorted(os.listdir(mask_dir))

        def __getitem__(self, index):
            return read(self.images[index]), read(self.masks[index])

## Not reported
Lists that are sorted, there or later, also by other code, or changed by code that is not followed; two lists of one
listing, or of the same folder by the same call; names of which the others are made; lists that are never read at one
index, as those of unpaired images (`index % len(...)`, a random one); sets of which each is measured, where nothing has
an entry of both (`real_scores[i] = score(real[i])`, `fake_scores[i] = score(fake[i])`); pairs of which a loop reads
only one, or whose names are compared. A question is what neither of two names calls a target (it may be that they need
not belong together), and what is written for Windows, whose listings come sorted.

## Fix (unsafe)
Sorts both listings. Unsafe because it changes the pairs, as it should; and whether names of the two folders go together
when they are sorted, the names have to tell.

## On real code
390 public repositories, most of which are not about images with masks: 3 findings, all of them questions, 2 true and 1
doubtful (foregrounds that are laid over backgrounds). In 9 others, which a search for such code had led to, 5 findings
in 4 of them, all true, and 2 questions, which are true as well; before anything was mended three more were false, loops
that read one of the two only. In 322 more, 3 findings: 1 false (statistics of two sets, which are no pairs and silent
since) and 2 in code that fails before, or fetches nothing.

Off by default until more is known of code that no search for the pattern has led to.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from dllint.api import (
    Assumption,
    Column,
    Context,
    Definition,
    Edits,
    Finding,
    ListingOrder,
    Listings,
    Pairing,
    Program,
    Rule,
    Site,
    nodes_of,
    replace_range,
    together,
)

_Find = Callable[[str], tuple[ListingOrder, Definition] | None]
_OF_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\w\\$|^\.{0,2}\\")

# ------------------------------------------------------------------------------------------------- excuses


def are_compared(place: Site, pairing: Pairing, listings: Listings, ctx: Context) -> bool:
    """code compares the names of the one list with those of the other"""
    return listings.are_compared(pairing)


def is_sorted_from_outside(place: Site, pairing: Pairing, listings: Listings, ctx: Context) -> bool:
    """other code of the project sorts one of the lists: `dataset.images.sort()`"""
    names = [text.partition(".")[2] for text in (pairing.first.text, pairing.second.text) if text.startswith("self.")]
    return any(ctx.project_mentions(rf"(?<!self)\.{re.escape(name)}(?:\.sort\(|\s*=\s*\w*sort)") for name in names)


class PairedByListingOrder(Rule):
    code = "DL423"
    name = "paired-by-listing-order"
    category = "correctness"
    severity = "warning"
    default = False
    triggers = (("listdir", "scandir", "glob", "iglob", "iterdir", "rglob", "walk"),)
    fix_safety = "unsafe"
    of_files = True
    references = ("https://docs.python.org/3/library/os.html#os.listdir",)
    excuses = (are_compared, is_sorted_from_outside)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        known: dict[str, tuple[ListingOrder, Definition] | None] = {}

        def find(name: str) -> tuple[ListingOrder, Definition] | None:
            if name not in known:
                known[name] = next(_definitions(name, program, ctx, find), None) if name else None
            return known[name]

        listings = Listings(program.module.tree, find)
        reported = set[int]()
        for pairing in (*listings.pairings(), *listings.handed_on()):
            leaves = sorted(
                (_last(pairing.first), _last(pairing.second)), key=lambda each: (each.lineno, each.col_offset)
            )
            if any(not isinstance(each, ast.Call) for each in pairing.first.behind | pairing.second.behind):
                continue
            place = Site(program.module, leaves[1])
            if id(leaves[1]) not in reported and not ctx.excused(self, place, pairing, listings):
                reported.add(id(leaves[1]))
                yield self._report(place, Site(program.module, leaves[0]), pairing, ctx)

    def _report(self, place: Site, other: Site, pairing: Pairing, ctx: Context) -> Finding:
        first, second = pairing.first.text, pairing.second.text
        return ctx.finding(
            self,
            place,
            f"`{first}` and `{second}` are paired by the order of two listings, which is arbitrary",
            assuming=_assumed_pair(place, pairing, ctx),
            effect="inputs get the targets of others, and nothing fails",
            help="sort both, or make the names of the one from those of the other",
            trace=[
                (other, "in the order in which the file system gives the entries"),
                (place, "and in that of another folder"),
                (Site(place.module, pairing.place), "pairs them by position"),
            ],
            fix=("Sort both listings", together(*(_sort(each, place) for each in _listings(pairing)))),
        )


def _definitions(name: str, program: Program, ctx: Context, find: _Find) -> Iterator[tuple[ListingOrder, Definition]]:
    """The functions and classes of a name at the top of the files that the program imports."""
    for module, tree in ctx.trees(name):
        for node in tree.body if module is not program.module else ():
            if isinstance(node, Definition) and node.name == name:
                yield Listings(tree, find), node


def _assumed_pair(place: Site, pairing: Pairing, ctx: Context) -> list[Assumption]:
    """What makes the two a pair, and that the order is not that of Windows."""
    names = [
        name
        for text in (pairing.first.text, pairing.second.text, *map(ast.unparse, _listings(pairing)))
        for name in re.findall(r"[A-Za-z_]\w*", text)
    ]
    assumed = []
    if not ctx.speaks_of("dense-target", *names) and not ctx.speaks_of("paired-target", *names):
        first, second = pairing.first.text, pairing.second.text
        assumed.append(Assumption("effect", f"an entry of `{first}` belongs to the one of `{second}` at its position"))
    texts = (node.value for node in nodes_of(place.module.tree).of(ast.Constant))
    if any(isinstance(text, str) and _OF_WINDOWS.search(text) for text in texts):
        assumed.append(Assumption("effect", "it runs on a system that does not sort its listings, as Windows does"))
    return assumed


def _last(column: Column) -> ast.expr:
    """The last listing that a list comes from."""
    leaves = [leaf for leaf in column.behind if isinstance(leaf, ast.expr)]
    return max(leaves, key=lambda leaf: (leaf.lineno, leaf.col_offset), default=column.node)


def _listings(pairing: Pairing) -> list[ast.expr]:
    leaves = [leaf for leaf in pairing.first.behind | pairing.second.behind if isinstance(leaf, ast.expr)]
    return sorted(leaves, key=lambda leaf: (leaf.lineno, leaf.col_offset))


def _sort(listing: ast.expr, place: Site) -> Edits:
    by_name = ", key=lambda entry: entry.name" if "scandir" in ast.unparse(listing) else ""
    text = ast.get_source_segment(place.module.source.text, listing)
    return replace_range(Site(place.module, listing), f"sorted({text}{by_name})")
