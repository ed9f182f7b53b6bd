"""The file that a command's `-o` names."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ..decision import WrongUse


def write_file(output: str, content: Iterable[bytes], force: bool, source: str) -> None:
    """Write the pieces of `content` one after another to the file named by `output`.

    force: replace the file if it exists.

    Raises WrongUse if it is a folder, the file `source` that was read, exists without `force`, or cannot be written.
    """
    path = Path(output)
    if path.is_dir() or output.endswith(os.sep):
        raise WrongUse(f"-o {output} is a folder: name a file in it")
    if path.exists() and os.path.exists(source) and os.path.samefile(path, source):
        raise WrongUse(f"-o {output} is the file that is exported: name another one")
    try:
        with open(path, "wb" if force else "xb") as file:
            file.writelines(content)
    except FileExistsError:
        raise WrongUse(f"{output} exists already: overwrite it with --force, or name another file with -o") from None
    except OSError as error:
        raise WrongUse(f"cannot write {output}: {error.strerror}") from None
