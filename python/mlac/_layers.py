# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""All layers of a model whose layers are of several kinds (DeepSeek-V4, gpt-oss).

Each kind has pools of its own and so an engine of its own. Requests and steps are the same for
all of them: a sequence here is one of each engine, a plan one of each, and `layer` is the number
of a layer in the model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._checked import length_of, total
from ._errors import InvalidArgument
from ._handle import require
from ._plan import Plan
from ._runtime import Device, Engine, Package, Sequence
from ._types import Array, Ints, List, Path, Stream
from ._weights import Checkpoint


class Layers:
    """An engine for each kind of a package's layers.

    Options are Engine's, without num_layers. `engines` are by kind, in the order of
    package.kinds; `place(layer)` says where a layer of the model is.
    """

    def __init__(self, package: Package, device: Device, **options: int):
        require("package", package, Package)
        require("device", device, Device)
        kinds = package.kinds
        if not kinds:
            raise InvalidArgument("package: expected one with kinds of layers, got layers that "
                                  "are alike: Engine takes it")
        if "num_layers" in options:
            raise InvalidArgument("num_layers: the package says how many layers there are")
        self.engines = [Engine(kind, device, num_layers=len(kind.layers), **options)
                        for kind in kinds]
        self._places = {layer: (number, index) for number, kind in enumerate(kinds)
                        for index, layer in enumerate(kind.layers)}

    def __len__(self) -> int:
        """Layers of all kinds."""
        return len(self._places)

    def place(self, layer: int) -> tuple[int, int]:
        """The number of the engine that has a layer of the model, and the layer's number there."""
        if layer not in self._places:
            raise InvalidArgument(f"layer {layer}: the package has {len(self)} layers, from "
                                  f"{min(self._places)} to {max(self._places)}")
        return self._places[layer]

    @property
    def hidden_size(self) -> int:
        return self.engines[0].hidden_size

    def bind_checkpoint(self, checkpoint: Checkpoint | Path, allow_extra: bool = False,
                        progress: bool | Callable[[int, int], Any] | None = None) -> None:
        """Binds all layers, each from the checkpoint's attention of its number, and prepares
        them. All or nothing for each kind; `progress` as of Engine.bind_checkpoint, for each
        kind."""
        if not isinstance(checkpoint, Checkpoint):
            with Checkpoint(checkpoint) as opened:
                return self.bind_checkpoint(opened, allow_extra, progress)
        for engine in self.engines:
            engine.bind_checkpoint(checkpoint, allow_extra=allow_extra, progress=progress)

    def sequence(self) -> LayersSequence:
        """A new, empty sequence in the caches of all kinds."""
        return LayersSequence([engine.sequence() for engine in self.engines])

    def plan(self) -> LayersPlan:
        """A plan; made once and filled for every step."""
        return LayersPlan(self)

    def close(self) -> None:
        """Releases all engines now."""
        for engine in self.engines:
            engine.close()


class LayersSequence:
    """One request's tokens, in the cache of each kind."""

    def __init__(self, parts: list[Sequence]):
        self.parts = parts

    def __len__(self) -> int:
        """Tokens, counting those of filled plans."""
        return len(self.parts[0])

    def reserve(self, num_tokens: int) -> None:
        """Takes pages for `num_tokens` in total, of every kind; where one has too few, OutOfPages
        leaves what was taken of the others to this sequence."""
        for part in self.parts:
            part.reserve(num_tokens)

    def truncate(self, num_tokens: int) -> None:
        """Forgets the tokens from `num_tokens` on, of every kind or, where one of them has given
        back what it would go back to, of none."""
        for part in self.parts:  # a fork takes no page, and is refused where truncate is
            part.fork(num_tokens).free()
        for part in self.parts:
            part.truncate(num_tokens)

    def free(self) -> None:
        """Gives the pages back; the sequence is unusable afterwards."""
        for part in self.parts:
            part.free()


class LayersPlan:
    """One step of a batch: fill, then run for every layer."""

    def __init__(self, layers: Layers):
        self._layers = layers
        self.parts: list[Plan] = [engine.plan() for engine in layers.engines]

    @property
    def layers(self) -> list[int]:
        """The numbers of the model's layers."""
        return sorted(self._layers._places)

    def place(self, layer: int) -> tuple[int, int]:
        """The number of the part that has a layer of the model, and the layer's number there."""
        return self._layers.place(layer)

    def fill(self, sequences: List[LayersSequence], query_lens: Ints,
             function: str | None = None, stream: Stream = None) -> None:
        """Plans a step of all kinds and advances the sequences by their query lengths.

        Pages are taken before anything is planned: OutOfPages advances no sequence. What else one
        kind refuses advances none either.
        """
        if not isinstance(sequences, (list, tuple)) or \
                not all(isinstance(sequence, LayersSequence) for sequence in sequences):
            raise InvalidArgument("sequences: expected a list of what mlac.Layers.sequence() makes, "
                                  f"got {sequences!r}")
        if len(sequences) != length_of("query_lens", query_lens):
            raise InvalidArgument(f"query_lens: expected {len(sequences)} lengths, "
                                  f"got {len(query_lens)}")
        total("query_lens", query_lens)  # integers, which are compared now
        for sequence, new in zip(sequences, query_lens):
            if new > 0:
                sequence.reserve(len(sequence) + new)
        filled: list[Sequence] = []
        try:
            for number, plan in enumerate(self.parts):
                parts = [sequence.parts[number] for sequence in sequences]
                plan.fill(parts, query_lens, function, stream)
                filled += parts
        except BaseException:  # an interrupt, too
            for part, new in zip(filled, list(query_lens) * len(self.parts)):
                part.truncate(len(part) - new)
            raise

    def run(self, hidden: Array, output: Array | None = None, layer: int = 0,
            stream: Stream = None, **outputs: Array) -> Array:
        """Runs the filled plan for a layer of the model and returns `output` (Plan.run)."""
        number, index = self.place(layer)
        return self.parts[number].run(hidden, output, index, stream, **outputs)
