"""Code of users: what is loaded, and above all what is not."""

import subprocess
import sys
from pathlib import Path

import pytest

from edge_fed import user_code
from edge_fed.config import Overrides
from edge_fed.errors import NonFinite
from edge_fed.federated.task import make_task
from edge_fed.seeding import streams
from edge_fed.user_code import OURS, UserCodeError, blamed, is_user_code, load
from scenarios.script import load_scenario


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of a user, where the program was started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_file_in_the_working_directory_is_loaded(folder):
    """``plant_a:make`` is ``make`` of ``plant_a.py``; dots lead into packages."""
    (folder / "plant_a.py").write_text("def make():\n    return 7\n")
    (folder / "fleet_a").mkdir()
    (folder / "fleet_a" / "house.py").write_text("class House:\n    limit = 3\n")
    assert load("plant_a:make", "id")() == 7
    assert load("fleet_a.house:House", "id").limit == 3


@pytest.mark.parametrize("name", ["os:system", "subprocess:run", "builtins:exec", "numpy:load"])
def test_what_is_installed_is_not_reached_by_name(folder, name):
    """A server that names installed functions gets nothing called: they are no files of this folder."""
    with pytest.raises(UserCodeError, match=r"there is no .*\.py in the folder"):
        load(name, "id")


@pytest.mark.parametrize(
    "name",
    [
        "edge_fed.program.files:write_atomic",
        "tests.edge_fed.test_torch_faults:run_without_torch",
        "docs.run_policy:layers",
    ],
)
def test_edge_fed_itself_is_not_reached_by_name(name, monkeypatch):
    """A program that is started in a clone of edge_fed has its packages in the working directory."""
    monkeypatch.setattr(user_code, "OURS", OURS)
    with pytest.raises(UserCodeError, match="is a part of edge_fed"):
        load(name, "id")


def test_every_folder_of_python_in_the_repository_is_ours():
    """A folder that comes along later is refused as well, or this says so."""
    root = Path(__file__).parents[2]
    folders = {path.relative_to(root).parts[0] for path in root.glob("[a-z]*/**/*.py")}
    assert folders - {"build", "runs"} <= OURS


@pytest.mark.parametrize("name", ["run", "LIMIT", "also", "subprocess"])
def test_what_a_file_imports_or_keeps_is_not_called(folder, name):
    """A server may not call what the user's file merely uses; only what it defines is meant to be named."""
    text = "import subprocess\nfrom subprocess import run\nLIMIT = 3\nalso = run\n"
    (folder / "plant_h.py").write_text(text)
    with pytest.raises(
        UserCodeError, match=f"'{name}' is no function or class that plant_h.py itself defines"
    ):
        load(f"plant_h:{name}", "id")


def test_a_link_out_of_the_folder_is_not_followed(folder, tmp_path_factory):
    """A link to a file elsewhere is not a file of this folder."""
    outside = tmp_path_factory.mktemp("outside") / "far_b.py"
    outside.write_text("make = print\n")
    (folder / "far_b.py").symlink_to(outside)
    with pytest.raises(UserCodeError, match="there is no"):
        load("far_b:make", "id")


def test_a_file_that_is_named_like_an_imported_module_is_refused(folder):
    """`json.py` of the user would be shadowed by the standard library's, which is imported already."""
    (folder / "json.py").write_text("make = print\n")
    with pytest.raises(UserCodeError, match="give your file another name"):
        load("json:make", "id")


@pytest.mark.parametrize(
    "name", ["plant", "plant:", ":make", "../plant:make", "plant:make()", "a b:c", "plant:make.x", ""]
)
def test_only_module_and_name_are_a_name(folder, name):
    """No paths, no calls, no dots into objects."""
    assert not is_user_code(name)
    with pytest.raises(UserCodeError, match="module:name"):
        load(name, "id")


def test_faults_name_the_setting_and_the_cause(folder):
    """A missing attribute, and an error within the user's file."""
    (folder / "plant_c.py").write_text("make = print\n")
    (folder / "broken_c.py").write_text("1 / 0\n")
    with pytest.raises(UserCodeError, match=r"environment args id: plant_c.py has no 'mke'"):
        load("plant_c:mke", "environment args id")
    with pytest.raises(UserCodeError, match="importing broken_c failed: ZeroDivisionError"):
        load("broken_c:make", "id")


@pytest.mark.parametrize("fault", ["SystemExit", "GeneratorExit"])
def test_a_file_that_ends_the_program_is_named_instead(folder, fault):
    """A script without a main guard calls ``sys.exit`` when it is imported."""
    (folder / f"script_{fault.lower()}.py").write_text(f"raise {fault}(0)\n")
    with pytest.raises(UserCodeError, match=f"importing script_{fault.lower()} failed: {fault}: 0"):
        load(f"script_{fault.lower()}:make", "id")


MOVES = "import os\n\n\ndef make():\n    os.chdir('/')\n    return os.getcwd()\n"
PROGRAM = """
from edge_fed.user_code import load, return_to_start, started_in
from pathlib import Path
import sys
assert load("plant_m:make", "id")() == "/"
load("plant_m:make", "id"), load("later_m:make", "id")
assert Path.cwd() == Path("/") and started_in() == Path(sys.argv[1])
return_to_start()
assert Path.cwd() == Path(sys.argv[1])
"""


def run(program, folder, *arguments):
    """A Python program that is started in this folder, and what it complained of."""
    command = [sys.executable, "-P", "-c", program, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.processes
def test_code_that_changes_the_working_directory_changes_nothing_for_the_next(tmp_path):
    """Files are looked for where the program was started, also after a factory's ``os.chdir``."""
    for name in ("plant_m.py", "later_m.py"):
        (tmp_path / name).write_text(MOVES)
    done = run(PROGRAM, tmp_path, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.processes
def test_a_program_whose_folder_is_gone_runs_without_the_users_code(tmp_path):
    """Only who asks for a file there is told that there is none."""
    gone = "import os, sys; os.rmdir(sys.argv[1]); from edge_fed.user_code import load, return_to_start; "
    (tmp_path / "gone").mkdir()
    done = run(gone + "return_to_start(); load('plant:make', 'id')", tmp_path / "gone", tmp_path / "gone")
    assert "UserCodeError: id: there is no plant.py" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "body", "told"),
    [
        ("bad_0", "def mine(policy, batch, v):\n    return v\n", r"takes 3 .*how it is called"),
        (
            "bad_1",
            "def mine(policy, batch, a, v):\n    return v[:2]\n",
            r"how it is called, or what it returned",
        ),
        (
            "bad_2",
            "def mine(policy, batch, a, v):\n\n    return v / {}\n",
            r"TypeError: .*\(at bad_2\.py:3\)",
        ),
    ],
)
def test_a_curvature_estimator_of_a_user_that_fails_is_named(folder, name, body, told):
    """Wrong arguments, a result of another shape, an error of its own: its name, and its line if known."""
    (folder / f"{name}.py").write_text(body)
    sets = ["algorithm.variant=exact", f"algorithm.curvature={name}:mine"]
    task = make_task(load_scenario("gridworld-exact", sets), 0, Overrides())
    params = task.initial(streams(0, 0, 0, 0)(1))
    with pytest.raises(UserCodeError, match=f"{name}:mine failed: .*{told}"):
        task.local_step(params, task.initial_state(), streams(0, 0, 1, 0), {})


def test_only_code_of_a_user_is_blamed():
    """Without any, what was raised stays what it was; errors of ours say their own place."""
    with pytest.raises(ZeroDivisionError), blamed("exact", "causal"):
        raise ZeroDivisionError
    with pytest.raises(NonFinite), blamed("exact", "mine:estimator"):
        raise NonFinite("the direction")
    with (
        pytest.raises(UserCodeError, match="mine:a or mine:b failed: SystemExit"),
        blamed("mine:a", "mine:b"),
    ):
        raise SystemExit(3)
