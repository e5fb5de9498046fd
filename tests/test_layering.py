"""The rules that every module of the package keeps, read from its source.

Who may import whom, who may touch which library, what may happen at import time, how large a module may be. A new
module has to be entered in the table of layers here: that is the moment to think about where it belongs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "sidecar"

# From the bottom up: a module imports from the layers below its own. A package counts as one entry with all it holds.
LAYERS = {
    "words": {"errors", "identity", "reasons"},
    "pure": {
        *("admission", "assignment", "config", "dialler", "dns_names", "handoff_format", "handshake", "peer_names"),
        *("preface", "presented", "server_names", "spiffe"),
    },
    "seams": {
        *("accept", "authority", "bind", "descriptors", "exposition", "http_server", "line_sink", "log", "metrics"),
        *("floor", "lifeline", "parting", "proc_net", "relay", "sockets", "tls", "upstream"),
    },
    "flow": {
        *("arrival", "connection", "epoch_floor", "exclusive", "gate", "journal", "lifecycle", "listener", "passage"),
        *("eager", "hand_over", "outer", "proof", "roster", "standing"),
    },
    "edges": {
        *("__main__", "admin", "app", "certificates", "certs", "cli", "client", "client_blocking", "control"),
        *("demo", "exposure"),
        *("gates", "handoff", "opening", "rebind", "reload", "telemetry", "vitals"),
    },
}

# Each seam stands alone, so that it can be tested and replaced alone. A pair (importer, imported) here needs a reason.
SEAMS_THAT_LEAN_ON_ANOTHER = {
    ("authority", "floor"),  # a record is kept before it is acted on
    ("authority", "metrics"),  # a reading is timed and counted where it happens, whoever asked for it
    ("metrics", "exposition"),  # one library in two files: what is counted, and how it is written out
    ("log", "line_sink"),  # a line's form, and getting it out
    ("accept", "sockets"),  # the options that a listening socket hands on are those of any other
    ("lifeline", "log"),  # when the receiver comes and goes is worth a line, and nobody else sees it
    ("lifeline", "sockets"),  # the kernel's words
    ("parting", "sockets"),  # as for the relay
    ("relay", "sockets"),  # the socket options that trio has no words for are the same ones
    ("upstream", "sockets"),  # as above
}

# Libraries and system interfaces with a seam of their own: they appear nowhere else. An entry, or one module of it.
ONLY_IN = {
    "OpenSSL": {"tls"},
    "cryptography": {"certs", "tls"},
    "h11": {"http_server"},
    "prometheus_client": {"exposition", "metrics", "app"},  # app makes the registry
    "pydantic": {"config"},
    "structlog": {"log"},
    "yaml": {"config"},
    "socket": {*LAYERS["seams"], "client_blocking", "cli.admin_client", "handoff"},  # the last three work without trio
    "asyncio": set(),
    "ssl": set(),
}

# Pure modules get bytes and values, and return values: these would let the world in.
NOT_IN_PURE = {
    *("asyncio", "concurrent", "multiprocessing", "select", "selectors", "signal", "subprocess", "threading", "trio"),
    *("OpenSSL", "cryptography", "h11", "http", "socket", "ssl", "urllib"),
    *("io", "os", "shutil", "sqlite3", "sys", "tempfile"),
    *("datetime", "random", "secrets", "time", "uuid"),
    *("logging", "prometheus_client", "structlog", "warnings"),
}

# Objects with a life or a state of their own: `app` makes them and passes them in, and importing a module makes none.
MADE_BY_SOMEBODY = {
    *("CollectorRegistry", "Counter", "Enum", "Gauge", "Histogram", "Info", "Summary"),
    *("getLogger", "get_logger", "configure", "basicConfig"),
    *("CapacityLimiter", "Condition", "Event", "Lock", "RLock", "Semaphore", "StrictFIFOLock", "Thread"),
    *("ContextVar", "RunVar", "local", "open_memory_channel", "open_nursery"),
    *("create_connection", "create_server", "open", "socket", "socketpair"),
}

NAMES_THAT_SAY_NOTHING = {"base", "common", "helper", "helpers", "misc", "shared", "tools", "util", "utils"}
MOST_LINES = 300


@dataclass(frozen=True)
class Module:
    """One source file of the package."""

    path: Path

    @property
    def parts(self) -> tuple[str, ...]:
        """Its dotted name below the package, in parts; the package itself has none."""
        parts = self.path.relative_to(PACKAGE).with_suffix("").parts
        return parts[:-1] if parts[-1] == "__init__" else parts

    @property
    def name(self) -> str:
        """Its dotted name below the package."""
        return ".".join(self.parts)

    @property
    def entry(self) -> str:
        """What stands for it in the table of layers."""
        return self.parts[0] if self.parts else ""

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text(), filename=str(self.path))

    def imports(self) -> Iterator[str]:
        """The dotted name of everything that it imports, wherever the import stands."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self}:{node.lineno}: relative imports hide the layer; write the full name"
                yield from (f"{node.module}.{alias.name}" for alias in node.names)

    def foreign_imports(self) -> set[str]:
        """The top-level names that it imports from outside the package; trio's sockets count as sockets."""
        names = set(self.imports())
        tops = {name.partition(".")[0] for name in names} - {PACKAGE.name}
        uses_trio_socket = any(
            isinstance(node, ast.Attribute) and node.attr == "socket" and ast.unparse(node.value) == "trio"
            for node in ast.walk(self.tree)
        )
        return tops | {"socket"} if uses_trio_socket or "trio.socket" in names else tops

    def own_imports(self) -> set[str]:
        """The modules of the package that it imports, by their name below it."""
        found = set()
        for name in self.imports():
            top, *rest = name.split(".")
            if top == PACKAGE.name:
                while rest and ".".join(rest) not in MODULES:  # the last part may be a name inside the module
                    rest.pop()
                found.add(".".join(rest))
        return found - {self.name}

    def does_something(self) -> bool:
        """Whether it has a function with a body: neither names handed on, nor mere classes or signatures, have one."""

        def has_body(node: ast.AST) -> bool:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                return False
            return any(not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)) for line in node.body)

        return any(map(has_body, ast.walk(self.tree)))

    def __str__(self) -> str:
        return str(self.path.relative_to(ROOT))


MODULES = {module.name: module for module in map(Module, sorted(PACKAGE.rglob("*.py")))}
LAYER_OF = {entry: name for name, entries in LAYERS.items() for entry in entries}
HEIGHT = {name: height for height, name in enumerate(LAYERS)}


def modules() -> list[Module]:
    """Every module but the package's own top, which has no layer."""
    return [module for name, module in MODULES.items() if name]


def layer(name: str) -> str:
    """The layer of a module, by its name below the package."""
    entry = name.partition(".")[0]
    assert entry in LAYER_OF, f"{PACKAGE.name}.{name} has no layer: enter it in LAYERS"
    return LAYER_OF[entry]


def executed_at_import(tree: ast.Module) -> Iterator[ast.AST]:
    """Every node that importing the module runs: all but the bodies of functions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
        elif not isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def files_of_the_repository() -> Iterator[Path]:
    """Every file that is, or could be, committed."""
    for path in sorted(ROOT.rglob("*")):
        folders = path.relative_to(ROOT).parts[:-1]
        hidden = any(folder.startswith(".") and folder != ".ci" for folder in folders)
        made = {"__pycache__", "build", "dist"} & set(folders)
        if path.is_file() and not hidden and not made:
            yield path


def test_every_module_has_a_layer() -> None:
    for module in modules():
        layer(module.name)


def test_every_layer_names_modules_that_exist() -> None:
    gone = sorted(set(LAYER_OF) - {module.entry for module in modules()})
    assert not gone, "\n".join(gone)


def test_imports_go_downwards() -> None:
    def may_import(importer: str, imported: str) -> bool:
        own, other = layer(importer), layer(imported)
        if own == other == "seams":
            pair = (importer.partition(".")[0], imported.partition(".")[0])
            return pair[0] == pair[1] or pair in SEAMS_THAT_LEAN_ON_ANOTHER
        return HEIGHT[own] >= HEIGHT[other]

    upwards = [
        f"{module} ({layer(module.name)}) imports {PACKAGE.name}.{name} ({layer(name)})"
        for module in modules()
        for name in sorted(module.own_imports() - {""})
        if not may_import(module.name, name)
    ]
    assert not upwards, "\n".join(upwards)


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {module.name: module.own_imports() - {""} for module in modules()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        raise AssertionError(circle) from error


def test_the_packages_top_imports_nothing_of_it() -> None:
    assert MODULES[""].own_imports() == set()


def test_a_library_with_a_seam_appears_only_there() -> None:
    strays = [
        f"{module} imports {library}"
        for module in modules()
        for library in sorted(module.foreign_imports() & set(ONLY_IN))
        if not {module.entry, module.name} & ONLY_IN[library]
    ]
    assert not strays, "\n".join(strays)


def test_words_and_pure_modules_touch_nothing_outside() -> None:
    impure = [
        f"{module} imports {library}"
        for module in modules()
        if layer(module.name) in {"words", "pure"}
        for library in sorted(module.foreign_imports() & NOT_IN_PURE)
    ]
    assert not impure, "\n".join(impure)


def test_nothing_is_made_at_import_time() -> None:
    made = [
        f"{module}:{node.lineno}: {ast.unparse(node.func)}()"
        for module in MODULES.values()
        for node in executed_at_import(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in MADE_BY_SOMEBODY
    ]
    assert not made, "\n".join(made)


def test_no_function_rebinds_a_global_name() -> None:
    rebound = [
        f"{module}:{node.lineno}: global {', '.join(node.names)}"
        for module in MODULES.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Global)
    ]
    assert not rebound, "\n".join(rebound)


def test_every_module_says_what_it_is_for() -> None:
    silent = [str(module) for module in MODULES.values() if not ast.get_docstring(module.tree)]
    assert not silent, "\n".join(silent)


def test_no_module_has_a_name_that_says_nothing() -> None:
    vague = [str(module) for module in modules() if NAMES_THAT_SAY_NOTHING & {part.strip("_") for part in module.parts}]
    assert not vague, "\n".join(vague)


def test_every_module_is_small_enough_to_read_at_once() -> None:
    lines = {str(module): len(module.path.read_text().splitlines()) for module in MODULES.values()}
    too_long = [f"{name}: {count} lines" for name, count in lines.items() if count > MOST_LINES]
    assert not too_long, "\n".join(too_long)


def test_every_module_that_does_something_has_its_test_file() -> None:
    untested = [
        f"{module}: write tests/test_{'_'.join(module.parts)}.py"
        for module in modules()
        if module.does_something()
        if not (ROOT / "tests" / f"test_{'_'.join(module.parts)}.py").exists()
    ]
    assert not untested, "\n".join(untested)


def test_the_repository_holds_no_private_key() -> None:
    begin = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")
    kinds = {".key", ".pem", ".p12", ".pfx"}
    keys = [str(path) for path in files_of_the_repository() if path.suffix in kinds or begin.search(path.read_bytes())]
    assert not keys, "\n".join(keys)


def test_the_repository_names_no_folder_of_somebodys_machine() -> None:
    private = re.compile(rb"(?<![\w.-])/(?:home|work|Users)/[\w.]+")
    named = [
        f"{path}: {found[0].decode()}"
        for path in files_of_the_repository()
        for found in private.finditer(path.read_bytes())
    ]
    assert not named, "\n".join(named)
