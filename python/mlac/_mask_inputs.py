# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Masks that are inputs of a model or a layer. Steps do not read them: each token sees those before it
in its sequence, all of them or a layer's window. So what the example holds must say just that, over
caches what a call holds, too, and the model must not have layers that see something else where it
makes its masks itself."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ._errors import CompileError, InvalidArgument

if TYPE_CHECKING:
    import torch

# Scores that are so much less than others have no weight, in any type (mla-compile's bound).
_HIDDEN = -65504
_LEAVE_OUT = "leave the mask out, and the model makes its own"


def _seen(mask: torch.Tensor, what: str) -> torch.Tensor:
    """[.., queries, keys], truth values."""
    import torch

    if mask.dtype == torch.bool:
        return mask
    other = (mask != 0) & (mask > _HIDDEN) if mask.is_floating_point() else mask != mask
    if not mask.is_floating_point() or other.any():
        kind = f"holds {float(mask[other][0]):g}" if other.any() else f"is of {mask.dtype}"
        raise InvalidArgument(f"{what} {kind}: expected truth values, or 0 and numbers up to "
                              f"{_HIDDEN}, that are added to scores")
    return mask == 0


def _find_difference(seen: torch.Tensor, expected: torch.Tensor) -> str:
    """Where they are not the same, in words; empty: nowhere."""
    wrong = (seen != expected).flatten(0, -3).any(0) if seen.dim() > 2 else seen != expected
    if not wrong.any():
        return ""
    query, key = wrong.nonzero()[0].tolist()
    verb = "does not see" if expected[query, key] else "sees"
    return f"token {query} {verb} token {key}"


def _causal(tokens: int, device: Any, window: int = 0) -> torch.Tensor:
    """`window`: of how many tokens, itself among them; 0: all."""
    import torch

    seen = torch.ones(tokens, tokens, dtype=torch.bool, device=device).tril()
    return seen.triu(1 - window) if window else seen


class _Inputs:
    """Those of an exported program, by where it attends."""

    _whose: ClassVar[str]  # before the node that the places name

    def __init__(self, program: Any, places: Iterable[Mapping[str, Any]]):
        self._places: dict[str, Any] = {}
        for place in places:
            if place["mask"]:
                self._places.setdefault(place["mask"], place)
        names = [spec.arg.name for spec in program.graph_signature.input_specs
                 if spec.kind.name == "USER_INPUT"]
        self._numbers = {names.index(name): name for name in self._places}
        self._program = program

    def _describe(self, name: str) -> str:
        place = self._places[name]
        module = f" in {place['module']}" if place["module"] else ""
        return f"input '{name}', the mask of {self._whose}node '{place['node']}'{module},"

    def check_example(self) -> None:
        """Raises InvalidArgument where the example's mask does not say what steps do."""
        from torch.utils import _pytree

        if not self._places:
            return
        if self._program.example_inputs is None:
            raise InvalidArgument("module: the exported program has no example inputs, which say what "
                                  f"the mask '{next(iter(self._places))}' holds: {_LEAVE_OUT}, or "
                                  "check_masks=False takes it as causal")
        leaves = _pytree.tree_leaves(self._program.example_inputs)
        for number, name in self._numbers.items():
            mask, what = leaves[number], self._describe(name)
            tokens = mask.shape[-1] if mask.dim() else 0
            if mask.dim() < 2 or mask.shape[-2] != tokens or tokens < 2:
                raise InvalidArgument(f"{what} is of {list(mask.shape)} in the example, expected "
                                      "[.., tokens, tokens] of two tokens or more, which say what it "
                                      "means")
            window = self._places[name].get("window", 0)
            wrong = _find_difference(_seen(mask, what), _causal(tokens, mask.device, window))
            if wrong:
                near = f" with a window of {window} tokens" if window else ""
                self._refuse(f"{what} is not the causal one{near} in the example: {wrong}.", window)
            if tokens <= window:
                warnings.warn(f"{what} is of {tokens} tokens in the example, which do not show the "
                              f"window of {window} that the configuration says and the package has",
                              stacklevel=3)  # who called export()

    def _refuse(self, wrong: str, window: int) -> NoReturn:
        raise NotImplementedError


class LayerMasks(_Inputs):
    """Of layers whose package computes what their configuration says."""

    _whose = "the attention before "

    def _refuse(self, wrong: str, window: int) -> NoReturn:
        if window:
            raise InvalidArgument(
                f"{wrong} The package has the configuration's window, whatever the mask holds: give an "
                "example of such a mask, a configuration with the layer's window, or, where layers "
                "differ, layer=")
        raise InvalidArgument(
            f"{wrong} The configuration has no window, so that the package's tokens see themselves and "
            "all before them, whatever the mask holds: give a causal example, or a configuration with "
            "the layer's window")


class MaskInputs(_Inputs):
    """Of a model over caches, by the plan of its attention."""

    _whose = ""

    def __init__(self, program: Any, plan: Mapping[str, Any]):
        super().__init__(program, plan["attention"])
        self._plan = plan

    @property
    def names(self) -> set[str]:
        """Of inputs of the graph, which are those of arguments that are one tensor each."""
        return set(self._places)

    def _refuse(self, wrong: str, window: int) -> NoReturn:
        raise InvalidArgument(f"{wrong} Over caches a token sees itself and all before it, so that "
                              f"another mask would give other tokens: {_LEAVE_OUT}, or give a causal "
                              "example")

    def _find_arguments(self, values: list[Any]) -> set[int]:
        """Those that hold masks: a tensor, or one of several."""
        from torch.utils import _pytree

        found, first = set(), 0
        for argument, value in enumerate(values):
            count = len(_pytree.tree_leaves(value))
            if any(number in self._numbers for number in range(first, first + count)):
                found.add(argument)
            first += count
        return found

    def leave_out(self, module: Any, example: Any, shapes: Any) -> tuple[Any, Any] | None:
        """The example and its open sizes without masks; none where the module cannot be without."""
        parameters = inspect.signature(module.forward).parameters
        names = list(example) if isinstance(example, Mapping) else list(parameters)
        values = list(example.values() if isinstance(example, Mapping) else example)
        left = {names[argument] for argument in self._find_arguments(values)}
        if any(name not in parameters or parameters[name].default is not None for name in left):
            return None
        kept = {name: None if name in left else value for name, value in zip(names, values)}
        if isinstance(shapes, Mapping):
            shapes = {name: None if name in left else open_ for name, open_ in shapes.items()}
        elif shapes is not None:
            shapes = tuple(None if name in left else open_ for name, open_ in zip(names, shapes))
        return kept if isinstance(example, Mapping) else tuple(kept.values()), shapes

    def check_own(self, make_plan: Callable[[], Mapping[str, Any]]) -> None:
        """Raises InvalidArgument where the model sees other tokens without them; `make_plan` is of
        the model's own masks."""
        name = next(iter(self._places))
        try:
            own = make_plan()
        except CompileError as error:
            # Attention without a mask: the input is what makes it causal.
            if "it has no mask, so that tokens see those after them" in str(error):
                return
            raise InvalidArgument(
                f"input '{name}': whether the model's layers see other tokens where the mask is left "
                f"out is not known, since its own masks are not understood:\n{error}\n"
                "check_masks=False takes the input as causal") from None
        counts = [len(plan["attention"]) for plan in (self._plan, own)]
        if counts[0] != counts[1]:
            raise InvalidArgument(f"input '{name}': the model attends {counts[0]} times with it, and "
                                  f"{counts[1]} times without: {_LEAVE_OUT}, or check_masks=False "
                                  "takes the input as it is")
        for place, other in zip(self._plan["attention"], own["attention"]):
            window = own["kinds"][other["kind"]]["window"]
            if place["mask"] and window != self._plan["kinds"][place["kind"]]["window"]:
                raise InvalidArgument(
                    f"{self._describe(place['mask'])} makes all tokens before a token be seen. Without "
                    f"it, the attention in {other['module']} sees the last {window} alone: "
                    f"{_LEAVE_OUT}, or check_masks=False takes the input as it is")

    def _stand_in(self, name: str, batch: int, tokens: int) -> torch.Tensor:
        """Of a mask that a call leaves out only the sizes may still be read."""
        import torch

        node = next(node for node in self._program.graph.nodes if node.name == name)
        example = node.meta["val"]
        opens = [batch] * (example.dim() - 2) + [tokens] * 2
        shape = [size if isinstance(size, int) else open_ for size, open_ in zip(example.shape, opens)]
        return torch.empty(shape, dtype=example.dtype, device="meta")

    def check_call(self, leaves: list[Any], batch: int, lengths: list[int]) -> None:
        """Raises InvalidArgument where a call's mask is another than what the steps do; none becomes
        one without numbers. `lengths`: of the sequences in a row."""
        import torch

        for number, name in self._numbers.items():
            mask, tokens = leaves[number], sum(lengths)
            if mask is None:
                leaves[number] = self._stand_in(name, batch, tokens)
                continue
            if list(mask.shape[-2:]) != [tokens, tokens]:
                raise InvalidArgument(f"{name}: expected [.., {tokens}, {tokens}], of the new tokens, "
                                      f"got {list(mask.shape)}; steps do not read it: leave it out")
            seen = _seen(mask, f"{name}:")
            whole = _causal(tokens, mask.device)
            each = torch.block_diag(*(_causal(length, mask.device) for length in lengths)).bool()
            wrong = _find_difference(seen, each)
            if wrong and _find_difference(seen, whole):
                raise InvalidArgument(f"{name}: {wrong}, and steps over caches do not read masks: each "
                                      "token sees itself and all before it in its sequence; leave it "
                                      "out")
