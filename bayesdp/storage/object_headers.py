"""Where the bytes of the attributes and of the compact data of an HDF5 object are in its file.

The HDF5 library does not say how long a text is before it reads it, and reads it with whatever length the file
states. So the few bytes that state it are looked up here, on the file as it is: the header of the object gives its
attributes, either one by one or in a "fractal heap" with a tree of names. Only the structures that hold attributes are
parsed (HDF5 File Format Specification, version 3.0, sections III.A.2, III.G, IV.A.1 and IV.A.2); whatever looks different is
refused. Addresses are those of the library, which checked the checksums when it opened the object.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bayesdp.storage.raw_bytes import RawBytes

_LAYOUT, _ATTRIBUTE, _CONTINUATION, _ATTRIBUTE_INFO = 0x08, 0x0C, 0x10, 0x15
_SHARED = 0x02
_NOWHERE = 2**64 - 1


@dataclass(frozen=True)
class Stored:
    """A stretch of a file: its first byte and its length."""

    start: int
    size: int


def stored_attributes(raw: RawBytes, address: int) -> Iterator[tuple[bytes, Stored]]:
    """Name and data of each attribute of an object."""
    # `address`: of the header of the object.
    for kind, flags, body in _messages(raw, address):
        if kind == _ATTRIBUTE:
            if flags & _SHARED:
                raise raw.unknown("attributes that are shared between objects")
            yield _attribute(raw, body)
        elif kind == _ATTRIBUTE_INFO:
            at = body.start + 2 + (2 if raw.number(body.start + 1, 1) & 1 else 0)
            heap, names = raw.number(at, 8), raw.number(at + 8, 8)
            if heap != _NOWHERE:
                for own in _in_fractal_heap(raw, heap, names):
                    yield _attribute(raw, own)


def stored_compactly(raw: RawBytes, address: int) -> Stored:
    """The data of a variable that are kept in its header."""
    for kind, _, body in _messages(raw, address):
        if kind == _LAYOUT and raw.number(body.start, 1) >= 3:
            size = raw.number(body.start + 2, 2)
            if size + 4 > body.size:
                raise raw.damaged("compact data do not fit")
            return Stored(body.start + 4, size)
    raise raw.unknown("data within a header")


def _messages(raw: RawBytes, address: int) -> Iterator[tuple[int, int, Stored]]:
    """Type, flags and body of each message of an object header, of version 1 or 2."""
    new = raw.part(address, 4) == b"OHDR"
    if new:
        flags = raw.number(address + 5, 1)
        at = address + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
        width = 1 << (flags & 3)
        blocks = [Stored(at + width, raw.number(at, width))]
        head = 6 if flags & 0x04 else 4
    else:
        if raw.number(address, 1) != 1:
            raise raw.unknown("object headers")
        blocks = [Stored(address + 16, raw.number(address + 8, 4))]
        head = 8
    for block in blocks:  # grows while it is walked, by the blocks in which the header goes on
        raw.visit(block.start, block.size + 1)
        at, end = block.start, block.start + block.size
        while end - at >= head:
            kind, size, flags = (
                (raw.number(at, 1), raw.number(at + 1, 2), raw.number(at + 3, 1))
                if new
                else (raw.number(at, 2), raw.number(at + 2, 2), raw.number(at + 4, 1))
            )
            body = Stored(at + head, size)
            if body.start + size > end:
                raise raw.damaged("a header does not end")
            if kind == _CONTINUATION:
                start, length = raw.number(body.start, 8), raw.number(body.start + 8, 8)
                # Of version 2, a signature in front and a checksum behind.
                blocks.append(Stored(start + 4, max(length - 8, 0)) if new else Stored(start, length))
            else:
                yield kind, flags, body
            at = body.start + size


def _attribute(raw: RawBytes, body: Stored) -> tuple[bytes, Stored]:
    """Name and data of an attribute message, of version 1, 2 or 3."""
    version = raw.number(body.start, 1)
    if version not in (1, 2, 3):
        raise raw.unknown("attributes")
    sizes = [raw.number(body.start + at, 2) for at in (2, 4, 6)]  # of its name, type and shape
    at = body.start + (9 if version == 3 else 8)
    name = raw.part(at, sizes[0]).split(b"\0")[0]
    at += sum(-(-size // 8) * 8 if version == 1 else size for size in sizes)
    end = body.start + body.size
    if at > end:
        raise raw.damaged("an attribute does not end")
    return name, Stored(at, end - at)


def _in_fractal_heap(raw: RawBytes, heap: int, names: int) -> Iterator[Stored]:
    """Every attribute message of a fractal heap, by the tree of names."""
    # Objects above the size that the heap manages itself ("huge", more than 4 KiB) are left out: no text of any length and no list
    # of dimensions that is read is among them, and who misses one refuses it.
    if raw.part(heap, 4) != b"FRHP" or raw.number(heap + 5, 2) != 8 or raw.number(heap + 7, 2) != 0:
        raise raw.unknown("heaps of attributes")
    offset_bytes = -(-raw.number(heap + 128, 2) // 8)
    if offset_bytes != 5:
        raise raw.unknown("heaps of attributes")
    for record in _records(raw, names):
        if raw.number(record, 1) & 0x30 == 0:
            offset, size = raw.number(record + 1, 5), raw.number(record + 6, 2)
            yield Stored(_managed(raw, heap, offset, size), size)


def _managed(raw: RawBytes, heap: int, offset: int, size: int) -> int:
    """Where an object of a fractal heap is: the heap is cut into blocks, in rows whose block size doubles."""
    width, first, largest = raw.number(heap + 110, 2), raw.number(heap + 112, 8), raw.number(heap + 120, 8)
    root, rows = raw.number(heap + 132, 8), raw.number(heap + 140, 2)
    row, start, block = 0, 0, first
    if rows == 0:
        where = root
    else:
        if raw.part(root, 4) != b"FHIB" or not first or not width:
            raise raw.damaged("a heap of attributes has no blocks")
        while offset >= start + width * block:
            start += width * block
            row += 1
            block = first << max(row - 1, 0)
            if row >= rows or block > largest:
                raise raw.unknown("so many attributes")
        column = (offset - start) // block
        start += column * block
        where = raw.number(root + 18 + 8 * (row * width + column), 8)  # behind signature, version, heap, offset
    if raw.part(where, 4) != b"FHDB" or offset - start + size > block:
        raise raw.damaged("a heap of attributes has an impossible entry")
    return where + offset - start


def _records(raw: RawBytes, tree: int) -> Iterator[int]:
    """Where the records of a tree of names are ("version 2 B-tree", of attributes by name), of depth 0 or 1."""
    if raw.part(tree, 4) != b"BTHD" or raw.number(tree + 5, 1) != 8:
        raise raw.damaged("attributes have no names")
    node, record, depth = raw.number(tree + 6, 4), raw.number(tree + 10, 2), raw.number(tree + 12, 2)
    root, count = raw.number(tree + 16, 8), raw.number(tree + 24, 2)
    if depth > 1 or record != 17 or not 64 <= node <= 2**16:
        raise raw.unknown("so many attributes")
    leaves = [(root, count)]
    if depth == 1:
        raw.visit(root, node)
        if raw.part(root, 4) != b"BTIN":
            raise raw.damaged("attributes have no names")
        width = 1 if (node - 10) // record < 256 else 2
        pointers = root + 6 + count * record
        yield from range(root + 6, pointers, record)
        step = 8 + width
        leaves = [
            (raw.number(at, 8), raw.number(at + 8, width))
            for at in range(pointers, pointers + (count + 1) * step, step)
        ]
    for leaf, own in leaves:
        if own:
            raw.visit(leaf, node)
            if raw.part(leaf, 4) != b"BTLF":
                raise raw.damaged("attributes have no names")
            yield from range(leaf + 6, leaf + 6 + own * record, record)
