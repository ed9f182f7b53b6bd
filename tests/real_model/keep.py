"""Keep runs of run_tasks.py as golden records: the record, and what was around it in tasks.json.

python tests/real_model/keep.py NAME[=KEPT_AS] ...
"""

import json
import shutil
import sys
from pathlib import Path

from run_tasks import PLACE

RECORDS = Path(__file__).resolve().parents[1] / "records"


def main() -> None:
    path = RECORDS / "tasks.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for given in sys.argv[1:]:
        name, _, kept_as = given.partition("=")
        shutil.copyfile(PLACE / f"{name}.jsonl", RECORDS / f"{kept_as or name}.jsonl")
        kept[kept_as or name] = json.loads((PLACE / f"{name}.json").read_text(encoding="utf-8"))
    path.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
