"""Run the script that the first argument names, with warnings as errors.

For processes that are forked: `python -W error` says so to a new interpreter, and a fork is none.
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
