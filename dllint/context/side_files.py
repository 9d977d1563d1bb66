"""Files beside the checkpoints, in which a run keeps its history: what it writes there, and takes up again."""

from __future__ import annotations

from collections.abc import Mapping

from dllint.context.checkpoints import is_same_path
from dllint.context.continuing import Continuing, is_only_looked_up, items_of
from dllint.dataclass import dataclass
from dllint.events import LibraryCall, OptimizerStep
from dllint.interp.run import graph
from dllint.structure import walk
from dllint.values import Symbol, Table, Value

_DUMPS = frozenset(("pickle.dump", "json.dump", "yaml.dump", "yaml.safe_dump"))
_LOADS = frozenset(("pickle.load", "json.load", "yaml.load", "yaml.safe_load"))
_OPENS = frozenset(("open", ".open"))
_MAX_SOURCES = 60


@dataclass(frozen=True, slots=True)
class SideFile:
    """A dict that is written beside the checkpoints (``written``) and read before training goes on (``read``).

    ``left`` are the entries that are neither looked up in what was read nor computed from it.
    """

    written: LibraryCall
    read: LibraryCall
    left: Mapping[str, Value]


class SideFiles(Continuing):
    """What a run keeps beside its checkpoints."""

    @property
    def side_files(self) -> list[SideFile]:
        """The dicts that a run which goes on from a checkpoint writes as it trains, and of which it looks entries up.

        None that is done anything else with after it was read, or of which not all entries are known.
        """
        if self.continuation is None:
            return []
        calls = [event for event in self.all_of(LibraryCall) if isinstance(event, LibraryCall)]
        reads = [each for each in calls if each.name in _LOADS and not self.loops_around(each)]
        found = (self._side_file(each, reads) for each in calls if each.name in _DUMPS)
        return [each for each in found if each is not None]

    def _side_file(self, written: LibraryCall, reads: list[LibraryCall]) -> SideFile | None:
        content, path = written.arguments.get(0, "obj"), _path_of(written.arguments.get(1, "file"))
        is_trained = any(
            isinstance(event, OptimizerStep) for loop in self.loops_around(written) for event in walk(loop.body)
        )
        if not isinstance(content, Table) or not content.exact or path is None or not is_trained:
            return None
        for read in reads:
            given = read.arguments.positional[:1]
            is_other = not given or not is_same_path(path, _path_of(given[0]))
            if is_other or not self.consistent(read.guards, written.guards) or not is_only_looked_up(read.site):
                continue
            keys = {item.detail for item in items_of(read.result)}
            entries = {key: value for key, value in content.entries().items() if isinstance(key, str)}
            if keys & entries.keys():
                left = {
                    key: each for key, each in entries.items() if key not in keys and not _comes_of(each, read.result)
                }
                return SideFile(written, read, left)
        return None


def _path_of(file: Value | None) -> Value | None:
    """The path of an open file."""
    return file.inputs[0] if isinstance(file, Symbol) and file.name in _OPENS and file.inputs else None


def _comes_of(value: Value, read: Value | None) -> bool:
    return any(source is read for source in graph.sources(value, _MAX_SOURCES))
