"""Importing the package is quick: PyMC is loaded when it is needed, and not before."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import bayesdp
from bayesdp import _wiring

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("pymc", "pytensor", "arviz")


def loaded_after(statements, heavy=HEAVY):
    """Run the statements in a fresh interpreter and say which of the heavy libraries they loaded."""
    program = f"{statements}\nimport sys\nprint('LOADED', *[name for name in {heavy!r} if name in sys.modules])"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("LOADED")[2].split())


def test_import_does_not_load_pymc_and_everything_imports_without_the_extras():
    heavy = (*HEAVY, "numpy")  # which is loaded: the check sees it
    assert loaded_after("import bayesdp, bayesdp.privacy, bayesdp.noise, bayesdp.datasets", heavy) == {"numpy"}
    # As if only the core dependencies were installed: what the extras bring in cannot be imported.
    statements = (
        "import importlib, pkgutil, sys\n"
        "sys.modules |= {'nutpie': None, 'opendp': None}\n"
        "import bayesdp\n"
        "for found in pkgutil.walk_packages(bayesdp.__path__, 'bayesdp.'):\n"
        "    if not found.name.endswith('__main__'):\n"
        "        importlib.import_module(found.name)\n"
    )
    assert "pymc" in loaded_after(statements)


def test_the_command_line_answers_without_numpy():
    # What `python -m bayesdp --help` does, in an interpreter that can be asked afterwards.
    commands = ("import", "release", "fit", "summary", "report", "test", "calibrate")
    asked = [(["--help"], 0), (["--version"], 0), *(([own, "--help"], 0) for own in commands)]
    statements = (
        "import runpy, sys\n"
        f"for arguments, code in {[*asked, (['fit', 'release.nc', '--no-such-option'], 2)]!r}:\n"
        "    sys.argv = ['bayesdp', *arguments]\n"
        "    try:\n"
        "        runpy.run_module('bayesdp', run_name='__main__')\n"
        "        raise AssertionError('it did not exit')\n"
        "    except SystemExit as stop:\n"
        "        assert stop.code == code, (arguments, stop.code)\n"
    )
    assert loaded_after(statements, (*HEAVY, "numpy", "pandas", "scipy", "xarray", "numba", "matplotlib")) == set()


def test_every_public_name_is_listed_and_what_the_pages_name_is_reachable_and_a_misspelt_name_is_not():
    assert dir(bayesdp) == sorted(bayesdp.__all__)
    bayesdp.privacy  # noqa: B018  loads submodules, which are listed no more for that
    assert dir(bayesdp) == sorted(bayesdp.__all__) == sorted({*bayesdp._HOME, *bayesdp._SUBMODULES, "__version__"})
    for purpose in _wiring._PLACES:
        assert callable(_wiring.connected(purpose)), purpose
    pages = [ROOT / "README.md", *(page for page in (ROOT / "docs").rglob("*.md") if "made" not in page.parts)]
    named = [re.findall(r"\b(?:bdp|bayesdp)((?:\.[A-Za-z_]\w*)+)", page.read_text(encoding="utf-8")) for page in pages]
    for name in {own for names in named for own in names}:
        found = bayesdp
        for part in name[1:].split("."):
            if part in ("py", "md", "io"):
                break
            if not hasattr(found, part):  # a module that nothing has imported yet
                importlib.import_module(f"{found.__name__}.{part}")
            found = getattr(found, part)
    with pytest.raises(AttributeError, match=r"no attribute 'LatticeLaplac'.*LatticeLaplace"):
        bayesdp.LatticeLaplac  # noqa: B018  the attribute access is what is tested


def _private_and_dynamic(source, own):
    """Imports of private names from another package, and imports of bayesdp at run time."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("bayesdp."):
            parts = node.module.split(".")[1:]
            if parts[0] == own or parts[0].startswith("_"):
                continue
            names = [*parts[1:], *(alias.name for alias in node.names)]
            yield from (f"{own}: {node.module} {name}" for name in names if name.startswith("_"))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            named = ast.unparse(node.args[0])
            if "bayesdp" in named or not isinstance(node.args[0], ast.Constant):
                yield f"{own}: imports {named} at run time"


def test_no_private_name_and_no_import_at_run_time_crosses_packages():
    root = Path(bayesdp.__file__).parent
    allowed = {
        "__init__: imports f'bayesdp.{name}' at run time",  # the public names of bayesdp, imported when first used
        "__init__: imports _HOME[name] at run time",
        "papers: imports f'bayesdp.papers.{name}' at run time",  # its modules, each when it is first used
        "_wiring: imports module at run time",  # the calls that go upwards
        "privacy: imports f'bayesdp.{_TABLES[name]}' at run time",  # public names of what knows tables
    }
    found = set()
    for path in root.rglob("*.py"):
        own = path.relative_to(root).with_suffix("").parts[0]
        found |= set(_private_and_dynamic(path.read_text(encoding="utf-8"), own))
    assert found <= allowed, sorted(found - allowed)
    wrong = "from bayesdp.steps._stop import stop\nfrom bayesdp.noise import _x\nimport_module('bayesdp.steps')\n"
    assert len(set(_private_and_dynamic(wrong, "report"))) == 3  # the check sees it
