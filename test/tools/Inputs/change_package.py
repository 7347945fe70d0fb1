"""Writes a package with some bytes changed and a checksum that fits (PackageTrailer.h).

change_package.py IN OUT AFTER OLD NEW
  Replaces the first OLD behind AFTER by NEW, which is as long.
"""

import sys

TRAILER, MASK, PRIME, BASIS = 16, 2 ** 64 - 1, 0x100000001b3, 0xcbf29ce484222325


def checksum(content):
    state = BASIS ^ len(content)
    for at in range(0, len(content), 8):
        word = int.from_bytes(content[at:at + 8], "little")
        state = (state ^ word) * PRIME & MASK
        state ^= state >> 32
    return state


def main(source, target, after, old, new):
    with open(source, "rb") as file:
        content = file.read()
    content, trailer = content[:-TRAILER], content[-TRAILER:]
    if checksum(content) != int.from_bytes(trailer[8:], "little") or len(old) != len(new):
        raise SystemExit("not a package as this script knows it, or another length")
    place = content.index(old.encode(), content.index(after.encode()))
    content = content[:place] + new.encode() + content[place + len(old):]
    with open(target, "wb") as file:
        file.write(content + trailer[:8] + checksum(content).to_bytes(8, "little"))


if __name__ == "__main__":
    main(*sys.argv[1:])
