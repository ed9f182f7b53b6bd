"""Run the script of the first argument with warnings as errors, in a fork, which has read `-W` long ago."""

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
    gc.collect()  # what it has left open says so, as it does when an interpreter ends
