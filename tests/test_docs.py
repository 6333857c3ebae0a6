"""The documents say what is true: their code runs, and what they name exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from reproductions.figures import FIGURES
from reproductions.presets import PRESETS
from srl_core.cli import COMMANDS
from srl_core.cli.overrides import leaves

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FIELDS = {path for name in PRESETS.names() for path, _ in leaves(PRESETS.get(name)())}
GROUPS = {path.partition(".")[0] for path in FIELDS if "." in path} - {"environment", "routes"}

every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


def python_blocks(text: str) -> str:
    return "\n\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))


@pytest.mark.integration
@pytest.mark.parametrize("document", [d for d in DOCUMENTS if python_blocks(d.read_text())], ids=lambda path: path.name)
def test_code_runs(document: Path, tmp_path: Path) -> None:
    code = python_blocks(document.read_text())
    lines = code.splitlines()
    future = "from __future__ import annotations"
    script = tmp_path / "example.py"
    script.write_text("\n".join([future, *(line for line in lines if line != future)]))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "completed" in done.stdout


@every_document
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        assert target.startswith("https://") or (document.parent / target).exists(), target


@every_document
def test_commands_exist(document: Path) -> None:
    text = document.read_text()
    for command, argument in re.findall(r"(?:^ {4}|`)srl ([a-z]+)(?: +([a-z][a-z-]+)\b)?", text, re.MULTILINE):
        assert command in COMMANDS, command
        if command in ("run", "graph") and argument:
            assert argument in PRESETS.names(), argument
    targets = set(re.findall(r"^([a-z][a-z%-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for target in re.findall(r"(?:^ {4}|`)make ([a-z-]+)", text, re.MULTILINE):
        kind = re.sub(r"^(reproduce|bench)-.*", r"\1-%", target)
        assert kind in targets, target
        if target.startswith("reproduce-"):
            assert target.removeprefix("reproduce-") in FIGURES.names()
        if target.startswith("bench-"):
            assert (ROOT / "srl_core/bench" / f"{target.removeprefix('bench-')}.py").exists()


@every_document
def test_fields_exist(document: Path) -> None:
    named = re.findall(rf"(?<![\w/-])((?:{'|'.join(sorted(GROUPS))})\.[a-z_]+(?:\.[a-z_]+)?)\b", document.read_text())
    assert [name for name in named if name not in FIELDS] == []


@pytest.mark.parametrize("path", ["README.md", "docs/performance.md"])
def test_there_is_a_place_for_measured_numbers(path: str) -> None:
    text = (ROOT / path).read_text()
    assert text.index("MEASURED NUMBERS: begin") < text.index("MEASURED NUMBERS: end")


def test_the_picture_is_what_the_command_draws(tmp_path: Path) -> None:
    """docs/architecture.md names the command."""
    from srl_core.cli import main

    assert "srl graph pong actor.inference=remote --output docs/dataflow.svg" in (
        ROOT / "docs/architecture.md"
    ).read_text().replace("\n", " ")
    assert main(["graph", "pong", "actor.inference=remote", "--output", str(tmp_path / "x.svg")]) == 0
    assert (tmp_path / "x.svg").read_text() == (ROOT / "docs/dataflow.svg").read_text()
