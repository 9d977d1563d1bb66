"""What things are called, and what their names speak of."""

from __future__ import annotations

from dllint.context.base import ProgramView
from dllint.interp.run import roles
from dllint.interp.source import topics
from dllint.interp.source.topics import Topic
from dllint.values import Value

__all__ = ["Naming", "Topic"]


class Naming(ProgramView):
    """Names, as a reader of the program understands them."""

    def name_of(self, value: Value) -> str:
        """The name a value goes by in the source, for messages and naming conventions."""
        return roles.name_of(value)

    def called(self, value: Value | None, kind: str) -> str:
        """How a message speaks of an object: by its name, "`opt`", or as "the optimizer" where it has none."""
        name = roles.name_of(value) if value is not None else ""
        return f"`{name}`" if name else f"the {kind}"

    def speaks_of(self, topic: Topic, *names: str) -> bool:
        """Whether one of some names (of variables, functions, classes, options, files) speaks of a topic.

        The topics and their words are in ``dllint/knowledge/names.toml``. A claim that rests on a name assumes that
        the name is right.
        """
        return any(topics.speaks_of(topic, name) for name in names)
