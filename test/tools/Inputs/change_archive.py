"""Writes a torch.export archive with one thing changed.

change_archive.py IN OUT CHANGE [ARGUMENTS]
  replace PATH OLD NEW   a text in the entry whose path ends so
  drop PATH              the entry
  put PATH TEXT          an entry beside the others
  cut BYTES              the file's end
  flip OFFSET            a byte
  compress               all entries
"""

import sys
import zipfile


def change(entries, what, arguments):
    root = next(iter(entries)).split("/")[0]
    if what == "put":
        entries[f"{root}/{arguments[0]}"] = arguments[1].encode()
        return
    (path,) = [path for path in entries if path.endswith("/" + arguments[0])]
    if what == "drop":
        del entries[path]
    else:
        old, new = (text.encode() for text in arguments[1:])
        assert old in entries[path], f"{old} is not in {path}"
        entries[path] = entries[path].replace(old, new)


def main(source, target, what, *arguments):
    if what in ("cut", "flip"):
        content = bytearray(open(source, "rb").read())
        if what == "cut":
            del content[-int(arguments[0]):]
        else:
            content[int(arguments[0])] ^= 1
        open(target, "wb").write(content)
        return
    with zipfile.ZipFile(source) as file:
        entries = {path: file.read(path) for path in file.namelist()}
    if what != "compress":
        change(entries, what, arguments)
    method = zipfile.ZIP_DEFLATED if what == "compress" else zipfile.ZIP_STORED
    with zipfile.ZipFile(target, "w", method) as file:
        for path, content in entries.items():
            file.writestr(path, content)


if __name__ == "__main__":
    main(*sys.argv[1:])
