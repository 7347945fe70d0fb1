# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cache rows that hold codes: their bytes filled at random, and read as keys.

    fp8_ds_mla       512 e4m3 | 4 f32, one for 128 codes each | 64 bf16
    mla_fp8_tensor   576 e4m3, and one scale of the layer

and DeepSeek-V4's records of 584 bytes: 448 e4m3 | 64 bf16, and behind those of a page 8 exponents for each, one
for 64 codes.
"""

ROW_BYTES = {"fp8_ds_mla": 656, "mla_fp8_tensor": 576}

LATENT, ROPE, GROUP = 512, 64, 128
# No power of two, so that products have to be rounded.
LAYER_SCALE = 0.1 / 60
# Of codes, which are then near the middle of e4m3's range.
CODE_SIZE = 60
# Where scales are `exact`, powers of two as in FlashMLA's own tests, no operand of a kernel is
# rounded: neither codes times the scales of rows nor queries times the layer's.
EXACT_LAYER_SCALE, EXACT_EXPONENTS = 0.25, (-10, -9)
PIECE = 1 << 17
# Of V4: bytes of a record with its exponents, and without them; codes; the exponent of numbers of about 1.
RECORD_BYTES, RECORD_CODED, RECORD_CODES, RECORD_EXPONENT = 584, 576, 448, -7


def fill(torch, session):
    """Writes random rows: numbers of about 0.1."""
    if not session.spec.format:
        # In pieces: normal_ on the whole pool would need as much again.
        for piece in session.pool.split(1 << 20):
            piece.normal_().mul_(0.1).clamp_(-1, 1)
        return
    set_scale(session)
    for piece in session.pool.split(PIECE):
        fill_codes(torch, piece, session.spec.format)


def layer_scale(exact=False):
    return EXACT_LAYER_SCALE if exact else LAYER_SCALE


def set_scale(session, exact=False):
    if session.spec.format == "mla_fp8_tensor":
        session.engine.set_cache_scale(layer_scale(exact))


def fill_codes(torch, rows, form, exact=False):
    """Rows that stand for numbers of about 0.1."""
    has_layer_scale = form == "mla_fp8_tensor"
    count = LATENT + ROPE if has_layer_scale else LATENT
    size = 0.1 / EXACT_LAYER_SCALE if has_layer_scale and exact else CODE_SIZE
    numbers = torch.randn(len(rows), count, device=rows.device) * size
    rows[:, :count] = numbers.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)
    if has_layer_scale:
        return
    shape = (len(rows), LATENT // GROUP)
    if exact:
        first, last = EXACT_EXPONENTS
        scales = torch.ldexp(torch.ones(shape, device=rows.device),
                             torch.randint(first, last + 1, shape, device=rows.device))
    else:
        scales = (torch.rand(shape, device=rows.device) * 0.1 + 0.05) / CODE_SIZE
    rows[:, count:count + 16] = scales.view(torch.uint8)
    rope = torch.randn(len(rows), ROPE, device=rows.device) * 0.1
    rows[:, count + 16:] = rope.bfloat16().view(torch.uint8)


def fill_records(torch, pages, page):
    """Pages of V4's records, uint8 [pages, page * RECORD_BYTES]: numbers of about 1, as normalised keys."""
    records, exponents = pages.split((page * RECORD_CODED, page * (RECORD_BYTES - RECORD_CODED)), 1)
    shape = (len(pages), page, RECORD_CODES + ROPE)
    numbers = torch.randn(shape, device=pages.device)
    codes = (numbers[..., :RECORD_CODES] * 2 ** -RECORD_EXPONENT).clamp(-448, 448)
    row = torch.cat([codes.to(torch.float8_e4m3fn).view(torch.uint8),
                     numbers[..., RECORD_CODES:].bfloat16().view(torch.uint8)], 2)
    records.copy_(row.flatten(1))
    exponents.fill_(127 + RECORD_EXPONENT)


def decode(torch, rows, form, exact=False):
    """Rows of a format as keys in bf16: codes times scales, rounded."""
    if form == "mla_fp8_tensor":
        return (rows.view(torch.float8_e4m3fn).float() * layer_scale(exact)).bfloat16()
    codes = rows[:, :LATENT].contiguous().view(torch.float8_e4m3fn).float()
    scales = rows[:, LATENT:LATENT + 16].contiguous().view(torch.float32)
    latent = (codes * scales.repeat_interleave(GROUP, dim=1)).bfloat16()
    rope = rows[:, LATENT + 16:].contiguous().view(torch.bfloat16)
    return torch.cat([latent, rope], dim=1)


def read(torch, session, places):
    """Rows of the pool as keys in float64."""
    rows = session.pool[places]
    return (decode(torch, rows, session.spec.format) if session.spec.format else rows).double()
