"""Change the decision in small ways, one at a time, and list the changes that `tests/decision` does not notice.

    make mutants                                        # half an hour on two idle cores
    make mutants ARGS="endstop.decision.rules*"         # of one module

mutmut wants a package as it is installed, so the folders are copied into one. It changes only what is inside functions.
Tests of texts and of calls are left out: they take most of the time, and the modules that are changed do not need them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PLACE = ROOT / "build" / "mutants"
CHANGED = ("decide", "facts", "fold", "guards", "limits", "outcome", "rules", "step_history")
TESTS = (
    *("decide", "facts", "fold", "guards", "limits", "outcome", "policy", "repetition", "rules", "step_history"),
    *("call_judgement", "cost", "damaged_transcript"),
)
CONFIGURATION = """[mutmut]
source_paths=endstop
only_mutate=
{changed}
also_copy=
    endstop
    tests
pytest_add_cli_args_test_selection=tests/decision
pytest_add_cli_args=-p
    no:xdist
"""


def copy() -> None:
    """Copy the package, the tests of the decision and what these need."""
    shutil.rmtree(PLACE, ignore_errors=True)
    no_caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "engine", PLACE / "endstop", ignore=no_caches)
    for folder in ("decision", "providers"):
        shutil.copytree(ROOT / folder, PLACE / "endstop" / folder, ignore=no_caches)
    tests = PLACE / "tests" / "decision"
    tests.mkdir(parents=True)
    for path in (ROOT / "tests").glob("*.py"):
        if not path.name.startswith("test_"):
            shutil.copy(path, tests.parent)
    for name in TESTS:
        shutil.copy(ROOT / "tests" / "decision" / f"test_{name}.py", tests)
    shutil.copy(ROOT / "pyproject.toml", PLACE)
    changed = "\n".join(f"    endstop/decision/{name}.py" for name in CHANGED)
    (PLACE / "setup.cfg").write_text(CONFIGURATION.format(changed=changed), encoding="utf-8")


def main() -> None:
    """Run mutmut, and print the changes that no test noticed."""
    copy()
    mutmut = [sys.executable, "-m", "mutmut"]
    subprocess.run([*mutmut, "run", *sys.argv[1:]], cwd=PLACE, check=False)
    left = subprocess.run([*mutmut, "results"], cwd=PLACE, check=True, capture_output=True, text=True).stdout
    print("\n".join(line for line in left.splitlines() if not line.endswith("not checked")))
    print(f"a change in full: cd {PLACE.relative_to(ROOT)} && {sys.executable} -m mutmut show NAME")


if __name__ == "__main__":
    main()
