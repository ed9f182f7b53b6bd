"""Run a Python script, whose path is the first argument, with all warnings raised as errors.

`python -W error SCRIPT` does this in a new interpreter. Tests fork a running one, which is quicker and reads no `-W`.
"""

import gc
import runpy
import sys
import warnings
from pathlib import Path

if __name__ == "__main__":
    warnings.simplefilter("error")
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
    gc.collect()  # files and sockets that were left open warn now; in an interpreter of its own they would at its end
