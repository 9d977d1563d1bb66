"""Scripts that ask a parser of the command line, and do nothing else."""

from __future__ import annotations

import ast

from dllint.interp.source.known_settings import last_name
from dllint.interp.source.nodes import nodes_of

PARSING = ("parse_args", "parse_known_args", "parse_intermixed_args")
_OF_PARSERS = frozenset(
    ("ArgumentParser", "add_argument", "add_argument_group", "add_mutually_exclusive_group", "set_defaults",
     "print_help", "print", "pprint", "pformat", "vars", "len", "str", "type", "list", "sorted", "enumerate", "format",
     "items", "_get_kwargs", *PARSING)
)  # fmt: skip
_DECLARING = (ast.Import, ast.ImportFrom, ast.Pass)
_SETTING = (ast.Assign, ast.AnnAssign)
_DEFINING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def only_parses(tree: ast.Module) -> bool:
    """Whether a file only calls a parser and shows what it gives, also in the functions that it runs.

    What it defines and does not run is of no account.
    """
    functions = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
    run: list[ast.stmt] = [each for each in tree.body if not isinstance(each, (*_DECLARING, *_DEFINING))]
    for statement in run:  # which grows meanwhile
        if not isinstance(statement, (ast.Expr, ast.FunctionDef, ast.If, ast.For, *_SETTING)):
            return False
        for call in nodes_of(statement).of(ast.Call):
            called = functions.get(last_name(call.func))
            if called is None and last_name(call.func) not in _OF_PARSERS:
                return False
            run += [called] if called is not None and called not in run else []
    return True
