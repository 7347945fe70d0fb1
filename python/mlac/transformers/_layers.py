# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The attention layers of a model: where they are, and their weights."""

from __future__ import annotations

from typing import Any

import torch

from .._errors import InvalidArgument, Unsupported

# Model types whose attention modules have the tensors of mla.md, and how many results the
# forward of one gives: output, attention weights, and indices that later layers share.
RESULTS = {"axk1": 2, "deepseek_v2": 2, "deepseek_v3": 2, "deepseek_v32": 2, "glm4_moe_lite": 2,
           "glm_moe_dsa": 3, "longcat_flash": 2, "minicpm3": 2,
           "mistral4": 2, "sarvam_mla": 2, "youtu": 2}

# What every one of them has, and no other attention.
_MARK = "kv_a_proj_with_mqa"


def find_decoder(model: torch.nn.Module) -> Any:
    """The module that runs the layers; of a model with parts, the language model's."""
    if not isinstance(model, torch.nn.Module):
        raise InvalidArgument(f"model: expected a torch.nn.Module, got {type(model).__name__}")
    for module in model.modules():
        layers = getattr(module, "layers", None)
        if isinstance(layers, torch.nn.ModuleList) and find_attentions(module):
            break
    else:
        raise InvalidArgument(f"model: found no layer with multi-head latent attention in "
                              f"{type(model).__name__}")
    decoder: Any = module
    model_type = decoder.config.model_type
    if model_type not in RESULTS:
        raise Unsupported(f"model type '{model_type}': expected one of {', '.join(RESULTS)}")
    return decoder


def find_attentions(decoder: Any) -> list[Any]:
    """Attention modules in the order in which they run; LongCat has two in a layer."""
    return [module for module in decoder.layers.modules() if hasattr(module, _MARK)]


def device_of(attentions: list[Any]) -> torch.device:
    """Where the attention's weights are: all on the CPU, or all on one GPU."""
    devices = {tensor.device for module in attentions for tensor in module.parameters()}
    if len(devices) != 1 or next(iter(devices)).type not in ("cpu", "cuda"):
        raise Unsupported("model: expected the attention of all layers on the CPU or on one GPU, "
                          f"got {', '.join(sorted(map(str, devices)))}")
    return next(iter(devices))


def weights_of(module: Any, weights: list[dict[str, Any]], layer: int) -> dict[str, Any]:
    """The tensors of `weights` (package.info) as the module holds them, on the host; of e4m3
    codes their scales too."""
    found = {}
    names = {weight["name"] for weight in weights}
    for name in sorted(names):
        owner_name, kind = name.rsplit(".", 1)
        owner = getattr(module, owner_name, None)
        where = f"layer {layer}, {owner_name}"
        if owner is None or getattr(owner, kind, None) is None:
            raise InvalidArgument(f"{where}: the package needs {name}, which the model lacks")
        if getattr(owner, "bias", None) is not None and f"{owner_name}.bias" not in names:
            raise InvalidArgument(f"{where}: the model has a bias, the package has none")
        tensor = getattr(owner, kind).detach().cpu().contiguous()
        if tensor.dtype == torch.float8_e4m3fn:
            scale = _scale_of(owner)
            found[f"{owner_name}.{scale}"] = getattr(owner, scale).detach().cpu().float()
            tensor = tensor.view(torch.uint8)
        found[name] = tensor
    return found


def check_weights(module: Any, layer: int) -> None:
    """Refuses projections whose weight is not all: adapted, sharded, or quantised otherwise
    than in e4m3 codes with scales."""
    for name, owner in module.named_children():
        if "_proj" in name:
            _check_projection(owner, f"layer {layer}, {name}")


# What quantised modules of transformers call the scales of their weight.
_SCALES = ("weight_scale_inv", "weight_scale")


def _scale_of(owner: Any) -> str:
    """Its name in `owner`, empty where there is none."""
    return next((name for name in _SCALES if getattr(owner, name, None) is not None), "")


def _check_projection(owner: Any, where: str) -> None:
    weight: Any = getattr(owner, "weight", None)
    is_plain = type(weight) in (torch.nn.Parameter, torch.Tensor)
    if is_plain and str(weight.dtype).startswith("torch.float8"):
        if weight.dtype != torch.float8_e4m3fn or not _scale_of(owner):
            raise Unsupported(f"{where}: expected fp8 weights in torch.float8_e4m3fn with "
                              f"{' or '.join(_SCALES)}, got {weight.dtype} in "
                              f"{type(owner).__name__}")
    elif type(owner) is not torch.nn.Linear or not is_plain:
        raise Unsupported(f"{where}: expected torch.nn.Linear with a plain weight, got "
                          f"{type(owner).__name__} with {type(weight).__name__}: merge adapters, "
                          "dequantise, and load without tensor parallelism")
