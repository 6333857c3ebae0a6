"""Rules of the whole source, read from its text: who imports whom, what is never called, what options must have."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from envs import ENVIRONMENTS
from reproductions.figures import FIGURES
from reproductions.presets import PRESETS
from srl_core.cli.overrides import first_line
from srl_core.config import ALGORITHMS, Experiment
from srl_core.workers.kinds import WORKERS
from tests.minimum_versions import minimum_requirements

ROOT = Path(__file__).parents[1]
PACKAGES = ("srl_core", "envs", "reproductions", "analysis", "tests")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
SOURCES = [path for path in FILES if path.relative_to(ROOT).parts[0] != "tests"]
MAX_LINES = 400

LAYERS = ("base", "api", "config", "streams", "services", "workers", "launchers", "cli")
"""Of `srl_core`, each may import those before it."""
_CORE = {layer: {*LAYERS[: i + 1]} for i, layer in enumerate(LAYERS)}
_CORE["networks"] = {"base", "api", "networks"}
_CORE["algorithms"] = {"base", "api", "networks", "algorithms"}
_CORE["bench"] = {*LAYERS, "bench"}

FORBIDDEN_MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
FORBIDDEN_CALLS = {"eval", "exec"}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Absolute module names, those inside functions included, with their lines; relative imports are not used."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative imports are not used here"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def layer_errors(path: Path, tree: ast.AST) -> list[str]:
    """Imports against the direction of the packages."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    errors = []
    for module, line in imports(tree):
        target = module.split(".")
        if target[0] not in PACKAGES:
            continue
        if parts[0] == "srl_core":
            layer = parts[1]
            allowed = _CORE.get(layer, set())
            good = target[0] == "srl_core" and (len(target) < 2 or target[1] in allowed)
            if layer == "bench":  # benchmarks stand above all
                good = target[0] in ("srl_core", "envs", "reproductions")
        elif parts[0] == "envs":
            good = target[0] == "envs" or (target[0] == "srl_core" and target[1] in ("api", "base"))
        elif parts[0] == "analysis":
            good = target[0] == "analysis"
        else:  # the runs of figures know all but tests, which know all
            good = target[0] != "tests" or parts[0] == "tests"
        if not good:
            errors.append(f"{name_of(path)}:{line} imports {module}")
    return errors


def forbidden(path: Path, tree: ast.AST) -> list[str]:
    """Ways from bytes to code."""
    errors = [
        f"{name_of(path)}:{line} imports {module}"
        for module, line in imports(tree)
        if module.split(".")[0] in FORBIDDEN_MODULES or module == "multiprocessing.reduction"
    ]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        bad = (
            called in FORBIDDEN_CALLS
            or (called == "torch.load" and keywords.get("weights_only") != "True")
            or (called in ("np.load", "numpy.load") and keywords.get("allow_pickle", "False") != "False")
            or called.endswith((".send_pyobj", ".recv_pyobj", "yaml.load", "yaml.unsafe_load"))
        )
        if bad:
            errors.append(f"{name_of(path)}:{node.lineno} calls {called}")
    return errors


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_files_are_short_and_clean(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= MAX_LINES, "split it by meaning"
    tree = parse(path)
    assert layer_errors(path, tree) == []
    assert forbidden(path, tree) == []
    if path in SOURCES and any(isinstance(node, ast.FunctionDef | ast.AnnAssign) for node in ast.walk(tree)):
        future = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
        assert future, "`from __future__ import annotations` is missing"


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_modules_and_what_they_offer_are_explained(path: Path) -> None:
    tree = parse(path)
    if not tree.body:
        return
    assert ast.get_docstring(tree), "the module has no docstring"
    bare = [n.name for n in tree.body if isinstance(n, ast.ClassDef) and n.name[0] != "_" and not ast.get_docstring(n)]
    assert bare == [], "classes without a docstring"


BAD = {
    "import pickle": forbidden,
    "from marshal import loads": forbidden,
    "def f():\n    import cloudpickle": forbidden,
    "exec('1')": forbidden,
    "torch.load(path)": forbidden,
    "torch.load(path, weights_only=False)": forbidden,
    "np.load(path, allow_pickle=True)": forbidden,
    "socket.recv_pyobj()": forbidden,
    "from srl_core.launchers import run_experiment": layer_errors,
    "import envs.atari": layer_errors,
    "def f():\n    from srl_core.workers.main import main": layer_errors,
}


@pytest.mark.parametrize("code", BAD, ids=lambda code: code.splitlines()[-1].strip())
def test_the_rules_find_what_breaks_them(code: str) -> None:
    assert len(BAD[code](ROOT / "srl_core/streams/example.py", ast.parse(code))) == 1


def test_the_rules_let_pass_what_is_allowed() -> None:
    code = "from srl_core.api import Tick\ntorch.load(p, weights_only=True)\nmodel.eval()\nnp.load(p)"
    path = ROOT / "srl_core/streams/example.py"
    assert layer_errors(path, ast.parse(code)) == forbidden(path, ast.parse(code)) == []


# Registries

REGISTRIES = {
    "environment": ENVIRONMENTS,
    "algorithm": ALGORITHMS,
    "preset": PRESETS,
    "figure": FIGURES,
    "worker": WORKERS,
}


@pytest.mark.parametrize(("noun", "name"), [(noun, name) for noun, r in REGISTRIES.items() for name in r.names()])
def test_every_registered_name_can_be_imported(noun: str, name: str) -> None:
    thing = REGISTRIES[noun].get(name)
    if noun in ("environment", "algorithm"):
        assert thing.kind == name
        assert dataclasses.fields(thing) is not None
        assert thing.__dataclass_params__.frozen
    if noun != "figure":
        assert first_line(thing).endswith((".", ":")) or len(first_line(thing)) > 20
    if noun == "preset":
        assert isinstance(thing(), Experiment)


def test_configurations_import_no_torch() -> None:
    code = (
        "import sys\n"
        "from srl_core.config import ALGORITHMS, environments\n"
        "from reproductions.presets import PRESETS\n"
        "for registry in (ALGORITHMS, environments(), PRESETS):\n"
        "    for name in registry.names():\n"
        "        thing = registry.get(name)\n"
        "        if registry is PRESETS: thing()\n"
        "print('torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "False\n"


# Options


def config_classes() -> list[type]:
    """Every configuration class that an experiment can be made of."""
    found: dict[type, None] = {}
    waiting: list[type] = [Experiment, *(r.get(n) for r in (ENVIRONMENTS, ALGORITHMS) for n in r.names())]
    while waiting:
        kind = waiting.pop()
        if kind in found:
            continue
        found[kind] = None
        module = vars(importlib.import_module(kind.__module__))
        for field in dataclasses.fields(kind):
            words = re.findall(r"\w+", str(field.type))
            waiting += [module[w] for w in words if dataclasses.is_dataclass(module.get(w))]
    return list(found)


CONFIGS = config_classes()


def documented_fields(kind: type) -> dict[str, str]:
    """Field to the docstring under it."""
    body = ast.parse(inspect.getsource(kind).lstrip()).body[0]
    assert isinstance(body, ast.ClassDef)
    docs = {}
    for node, after in zip(body.body, [*body.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            docs[node.target.id] = str(text).strip()
    return docs


@pytest.mark.parametrize("kind", CONFIGS, ids=lambda kind: kind.__name__)
def test_every_field_is_explained(kind: type) -> None:
    docs = documented_fields(kind)
    own = [field for field in dataclasses.fields(kind) if field.name in docs]
    # A group of further fields is explained by its class.
    groups = {field.name for field in own if any(str(field.type) == config.__name__ for config in CONFIGS)}
    assert [field.name for field in own if not docs[field.name] and field.name not in groups] == []


def test_a_number_with_a_unit_says_so() -> None:
    """Times are in seconds, and their docs say it."""
    for kind in CONFIGS:
        for name, doc in documented_fields(kind).items():
            if name.endswith("seconds"):
                assert "[s]" in doc, f"{kind.__name__}.{name}"


def test_no_option_is_dead() -> None:
    """Each field is read as an attribute somewhere outside the tests."""
    read = set()
    for path in SOURCES:
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                read.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
                read.add(node.value)  # getattr(config, name) in a loop over names
    for kind in CONFIGS:
        unread = [field.name for field in dataclasses.fields(kind) if field.name not in read]
        assert unread == [], f"{kind.__name__} has options that nothing reads"


# Packaging


def test_every_requirement_states_a_minimum_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = minimum_requirements(project)
    assert "numpy==2.0" in pinned
    assert len(pinned) == len({p.partition("==")[0] for p in pinned})
    with pytest.raises(ValueError, match="states no minimum"):
        minimum_requirements({"name": "x", "dependencies": ["numpy"], "optional-dependencies": {}})


def test_the_makefile_explains_every_target() -> None:
    text = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][a-z%-]*):", text, re.MULTILINE))
    explained = set(re.findall(r"^([a-z][a-z%-]*):[^#\n]* ## \S", text, re.MULTILINE))
    assert targets == explained
    assert targets >= {
        "setup",
        "quickstart",
        "test",
        "test-all",
        "lint",
        "types",
        "check-figures",
        "reproduce-%",
        "bench-%",
    }
