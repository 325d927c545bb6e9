"""What of a built kernel its modules need: headers, makefiles and the programs of `scripts/`."""

from __future__ import annotations

import os
import re
from pathlib import Path

_NEEDED = re.compile(
    r"Makefile|Kbuild|Kconfig|\.config|Module\.symvers"
    r"|arch/x86/Makefile.*"
    r"|(include|arch/x86/include)/.*"
    r"|(arch/x86|fs|kernel|mm|net|lib)/.*\.h"
    r"|scripts/.*(?<!\.o)(?<!\.cmd)"
    r"|tools/objtool/objtool"
)


def is_needed_by_modules(path: str) -> bool:
    """Tell whether modules are built with the file *path* of a kernel's tree.

    >>> is_needed_by_modules("include/net/sock.h"), is_needed_by_modules("net/core/dev.c")
    (True, False)
    """
    return bool(_NEEDED.fullmatch(path))


def prune_tree(tree: Path) -> None:
    """Remove from a built kernel's tree all that its modules do not need."""
    for folder, _, names in os.walk(tree, topdown=False):
        for name in names:
            path = Path(folder, name)
            if not is_needed_by_modules(path.relative_to(tree).as_posix()):
                path.unlink()
        if not os.listdir(folder):
            os.rmdir(folder)
