"""The action for pull requests: its steps are run as a runner on GitHub runs them."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from lanemap.cli.web.guide import kernels

ROOT = Path(__file__).parent.parent
ACTION = Path(".github/actions/lanemap/action.yml")

KERNELS = """
import numpy  # of the Python that the action is given


def a_fragment(lane, value):
    return lane // 4 + value // 2 % 2 * 8, lane % 4 * 2 + value % 2 + value // 4 * 8


def b_fragment(lane, value):
    return lane % 4 * 2 + value % 2 + value // 2 * 8{slip}, lane // 4
"""
E2M1 = """

def a_of_e2m1(lane, value):
    return lane // 4 + value // 8 % 2 * 8, lane % 4 * 8 + value % 8 + value // 16 * 32
"""
LAUNCH = """
block = 64
product = "C[m,n] = A[m,k] B[n,k]"
args = { A = "f16[16,16]", B = "f16[8,16]", C = "f32[16,8]" }
"""
ENTRY = """
[[entry]]
module = "layouts.kernels"
name = "{name}"
form = "place"
claims = [{{ shape = "m16n8k16", types = "f16 bf16", role = "{role}" }}]
"""


def steps():
    """The commands of each step, without what a runner puts into them."""
    text = (ROOT / ACTION).read_text()
    return [textwrap.dedent(block) for block in re.findall(r"^ +run: \|\n((?: {8}.*\n)+)", text, re.MULTILINE)]


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    """A runner that has installed Lanemap: a checkout of what git tracks, and what the first step makes of it."""
    if sys.platform != "linux":
        pytest.skip("the action is for runners with bash")
    folder = tmp_path_factory.mktemp("runner")
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if files.returncode:
        pytest.skip("what is not a checkout cannot be what a runner has")
    for name in filter(None, files.stdout.split("\0")):
        if not name.startswith("tests/") and (ROOT / name).exists():
            (folder / "lanemap" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "lanemap" / name)
    environment = {
        **os.environ,
        "COLUMNS": "80",
        "RUNNER_TEMP": str(folder / "temp"),
        "GITHUB_ACTION_PATH": str(folder / "lanemap" / ACTION.parent),
        # All that Lanemap needs is here: nothing is downloaded.
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path.endswith("site-packages")),
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
    install, _ = steps()
    done = subprocess.run(["bash", "-eo", "pipefail", "-c", install], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return environment


def commands(said):
    """What a runner takes as a workflow command."""
    token = None
    for line in map(str.strip, said.splitlines()):
        if token:
            token = None if line == f"::{token}::" else token
        elif line.startswith("::stop-commands::"):
            token = line.removeprefix("::stop-commands::")
        elif line.startswith("::") or "##[" in line:
            yield line
    assert token is None


@pytest.fixture
def check(runner, built_for_a_warp, tmp_path):
    """A function that runs the second step in a repository with these kernels and this mapping."""

    def check(kernels, *entries, allow="false", against="", mapping="ci/kernels.toml", traces="", files=()):
        repository = tmp_path / "repository"
        folder = (repository / mapping).parent / "layouts"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "kernels.py").write_text(kernels)
        (repository / mapping).write_text('library = "my kernels"\npackage = "my-kernels"\n' + "".join(entries))
        for name, text in dict(files).items():
            (repository / name).write_text(text)
        shutil.copy(built_for_a_warp, Path(runner["RUNNER_TEMP"], "lanemap.db"))
        inputs = {"MAPPING": mapping if entries else "", "TRACES": traces}
        inputs |= {"PYTHON": "python3", "AGAINST": against, "ALLOW_UNJUDGED": allow}
        summary = tmp_path / "summary.md"
        command = ["bash", "-eo", "pipefail", "-c", steps()[1]]
        environment = runner | inputs | {"GITHUB_STEP_SUMMARY": str(summary)}
        done = subprocess.run(
            command, env=environment, cwd=repository, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        said = summary.read_text() if summary.exists() else ""
        return done.returncode, list(commands(done.stdout)), said, done

    return check


def entry(name, role):
    return ENTRY.format(name=name, role=role)


@pytest.mark.slow
def test_right_layouts_pass(check):
    code, annotations, summary, done = check(
        KERNELS.format(slip=""), entry("a_fragment", "A"), entry("b_fragment", "B")
    )
    assert (code, annotations) == (0, []), done
    assert "agreed: 4 fragments compared" in summary


@pytest.mark.slow
def test_a_wrong_layout_is_said_on_the_line_of_its_function_and_one_that_is_gone_on_the_mapping(check):
    kernels = KERNELS.format(slip=" * (lane < 8)")
    code, annotations, summary, _ = check(kernels, entry("gone", "A"), entry("b_fragment", "B"))
    line = 1 + kernels.splitlines().index("def b_fragment(lane, value):")
    assert code == 1
    gone, wrong = annotations
    assert gone.startswith("::error file=ci/kernels.toml,title=Lanemap::kernels: 2 fragments, 256 rows; 1 failed%0A")
    assert "has no attribute 'gone'" in gone
    assert wrong.startswith(f"::error file=ci/layouts/kernels.py,line={line},title=B of mma m16n8k16 f16 bf16::")
    assert "b_fragment" in summary


@pytest.mark.slow
def test_names_of_files_and_of_a_mapping_are_no_commands(check):
    """A comma would end the name of a file, and a runner also takes commands within a line."""
    slip = KERNELS.format(slip=" * (lane < 8)")
    hostile = entry("gone", "A").replace("layouts.kernels", "##[add-mask]layouts")
    code, annotations, _, done = check(slip, hostile, entry("b_fragment", "B"), mapping="a,b:100%/kernels.toml")
    assert code == 1
    assert "LookupError: ##[add-mask]layouts" in done.stdout
    failed, wrong = annotations
    assert failed.startswith("::error file=a%2Cb%3A100%25/kernels.toml,title=Lanemap::")
    assert wrong.startswith("::error file=a%2Cb%3A100%25/layouts/kernels.py,line=")


@pytest.mark.slow
def test_what_nothing_can_judge_fails_unless_it_is_allowed(check):
    unmeasured = entry("a_of_e2m1", "A").replace("m16n8k16", "m16n8k64").replace("f16 bf16", "e2m1")
    kernels = KERNELS.format(slip="") + E2M1
    entries = entry("b_fragment", "B"), unmeasured
    assert check(kernels, *entries)[:2] == (0, [])
    for allow in ("false", "true"):
        code, annotations, _, done = check(kernels, *entries, allow=allow, against="h200-sm_90a")
        assert code == (allow == "false"), done
        (said,) = annotations
        assert said.startswith("::warning file=ci/layouts/kernels.py,line=")


@pytest.mark.slow
def test_kernels_are_traced(check):
    """What is wrong is said on lines of the source where the kernel names them, and the others are traced, too."""
    right, wrong = kernels()["gemm"], kernels()["exchanged"]
    mma = next(number for number, line in enumerate(wrong.splitlines(), 1) if "mma.sync" in line)
    lined = wrong.replace("    mma.sync", "    .loc 1 7 0\n    mma.sync") + '\n.file 1 "gemm.cu"\n'
    texts = {"gemm": right, "wrong": wrong, "lined": lined, "hostile": "::error::{"}
    files = {f"ci/{name}.ptx": text for name, text in texts.items()}
    files |= {f"ci/{name}.trace.toml": LAUNCH for name in texts} | {"ci/gemm.cu": ""}
    code, annotations, summary, done = check("", traces="ci/gemm.trace.toml", files=files)
    assert (code, annotations) == (0, []), done
    assert "nothing is wrong in gemm" in summary
    code, annotations, summary, done = check("", traces="ci/[gwl]*.trace.toml", files=files)
    assert code == 1, done
    places = [re.match(r"::error file=(.*?),(?:line=(\d+),)?title=gemm::", line).groups() for line in annotations]
    assert {("ci/wrong.ptx", str(mma)), ("ci/gemm.cu", "7")} <= {*places}
    assert summary.count("# Trace of gemm") == 4  # with the first run
    code, annotations, _, _ = check("", traces="ci/hostile.trace.toml none.trace.toml", files=files)
    assert code == 1
    assert [line.partition("::lanemap")[0] for line in annotations] == [
        "::error file=ci/hostile.trace.toml,title=Lanemap",
        "::error file=none.trace.toml,title=Lanemap",
    ]
    code, annotations, _, _ = check("", traces="none*.trace.toml", files=files)
    assert code == 1
    assert "there is no such file" in annotations[0]


def test_the_action_takes_what_its_steps_use_and_the_guide_says():
    text = (ROOT / ACTION).read_text()
    inputs = set(re.findall(r"^  ([\w-]+):$", text.partition("inputs:")[2].partition("runs:")[0], re.MULTILINE))
    assert set(re.findall(r"\$\{\{ inputs\.([\w-]+) \}\}", text)) == inputs
    guide = (ROOT / "cli" / "web" / "guide" / "check.md").read_text()
    assert f"/{ACTION.parent}@" in guide
    (given,) = re.findall(r"with: \{ (.*) \}", guide)
    assert {argument.split(":")[0] for argument in given.split(", ")} <= inputs
    assert all(f"`{name}" in guide or name in given for name in inputs)
