"""Writes a safetensors file with one tensor of the attention module changed.

change_tensor.py IN OUT CHANGE TENSOR [VALUE]
  CHANGE: drop; zero (its content); rename (to VALUE); add (a copy named VALUE);
  or a field of the header (dtype, shape, data_offsets) that becomes VALUE, which
  is JSON. The data section stays dense, as the format demands.
"""

import json
import struct
import sys


def read(path):
    with open(path, "rb") as file:
        content = file.read()
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8:8 + size]), content[8 + size:]


def main(source, target, change, name, value=None):
    header, data = read(source)
    (full,) = [key for key in header if key.endswith("/" + name)]
    tensors = {key: tensor for key, tensor in header.items() if key != "__metadata__"}
    if change == "drop":
        del tensors[full]
    elif change == "rename":
        tensors[full[:-len(name)] + value] = tensors.pop(full)
    elif change == "add":
        tensors[full[:-len(name)] + value] = dict(tensors[full])
    parts, offset = [], 0
    for tensor in tensors.values():
        begin, end = tensor["data_offsets"]
        zero = change == "zero" and tensor is tensors.get(full)
        parts.append(bytes(end - begin) if zero else data[begin:end])
        tensor["data_offsets"] = [offset, offset + end - begin]
        offset += end - begin
    if change in ("dtype", "shape", "data_offsets"):
        tensors[full][change] = json.loads(value)
    if "__metadata__" in header:
        tensors["__metadata__"] = header["__metadata__"]
    text = json.dumps(tensors).encode()
    text += b" " * (-len(text) % 8)
    with open(target, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


if __name__ == "__main__":
    main(*sys.argv[1:])
