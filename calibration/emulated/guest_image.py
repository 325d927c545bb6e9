"""Write the file system a guest starts from: a cpio archive, made here without any tool.

    /init /program /job /settings /arguments /trace /modules/0-wire.ko ...  /padding

What differs between two runs must be what was asked for. So names, modes and times are constant,
texts are padded to a fixed size, and `/padding` takes what the trace leaves of whole mebibytes:
the kernel then hands out the same pages in the same order in every run.

Source: Linux, Documentation/driver-api/early-userspace/buffer-format.rst ("newc").
"""

from __future__ import annotations

import stat
from collections.abc import Mapping

PAGE_BYTES = 4096
TEXT_BYTES = 4096
PADDED_BYTES = 1 << 20
_ALIGNMENT = 4
_TRAILER = "TRAILER!!!"


def padded_text(text: str, n_bytes: int = TEXT_BYTES) -> bytes:
    r"""Return *text* followed by empty lines up to *n_bytes*.

    >>> padded_text("exec", 8)
    b'exec\n\n\n\n'
    """
    content = text.encode()
    if len(content) >= n_bytes:
        raise ValueError(
            f"a text for a guest must be shorter than {n_bytes} bytes, got {len(content)}"
        )
    return content.ljust(n_bytes, b"\n")


def padded_to_pages(text: bytes) -> bytes:
    """Return *text* followed by empty lines up to whole pages."""
    return text + b"\n" * (-len(text) % PAGE_BYTES)


def padding_for(n_bytes: int) -> int:
    """Return what is left of whole mebibytes beside *n_bytes*, at least a page if those are pages.

    >>> padding_for(4096), padding_for((1 << 20) - 4096), padding_for(1 << 20)
    (1044480, 4096, 1048576)
    """
    return PADDED_BYTES - n_bytes % PADDED_BYTES


def initramfs(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    """Return a cpio archive of *files*: path from the root -> (content, permissions).

    Folders are made from the paths; the order is that of the mapping.
    """
    entries: list[bytes] = []
    folders: set[str] = set()
    for path, (content, permissions) in files.items():
        parts = path.strip("/").split("/")
        for depth in range(1, len(parts)):
            folder = "/".join(parts[:depth])
            if folder not in folders:
                folders.add(folder)
                entries.append(_entry(len(entries) + 1, folder, stat.S_IFDIR | 0o755, b""))
        mode = stat.S_IFREG | permissions
        entries.append(_entry(len(entries) + 1, "/".join(parts), mode, content))
    entries.append(_entry(0, _TRAILER, 0, b""))
    return b"".join(entries)


def _entry(inode: int, name: str, mode: int, content: bytes) -> bytes:
    """Return one member: thirteen numbers of eight hexadecimal digits, the name, the content."""
    n_links = 2 if stat.S_ISDIR(mode) else 1
    fields = (inode, mode, 0, 0, n_links, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    header = b"070701" + b"".join(b"%08x" % field for field in fields)
    return _aligned(header + name.encode() + b"\0") + _aligned(content)


def _aligned(content: bytes) -> bytes:
    return content + bytes(-len(content) % _ALIGNMENT)
