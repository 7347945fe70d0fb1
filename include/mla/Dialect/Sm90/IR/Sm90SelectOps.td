//===- Sm90SelectOps.td - the largest values of a row --------*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The steps of a selection, each done by all threads of a CTA together. Included by Sm90Ops.td.
//
// Values of a row are compared as `tile.top_k` says: NaN below every number, -0 equal to +0.
// They have *keys*, unsigned numbers of 32 bits in their order (NaN: 0). A *list* holds candidates,
// in any order: row 0 values, row 1 the bits of their positions. A list *in order* holds a whole row instead:
// the value at position i is its i-th, NaN among them, and row 1 means nothing.
//
// Between two of these ops that touch one tile stands a `sm90.barrier`, where one of them writes it.
// Barriers within an op are its own. (C0) They stand outside of roles, in a kernel of 2 warpgroups or more.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_SM90_IR_SM90SELECTOPS_TD
#define MLA_DIALECT_SM90_IR_SM90SELECTOPS_TD

def Sm90_SelectBeginOp : Sm90_Op<"select_begin"> {
  let summary = "makes the memory of a search ready";
  let description = [{
    `work` is what the threads of a search share: a histogram and some numbers, zeros between
    searches. One `sm90.select_keep` or `sm90.select_hold`, one `sm90.select_meet` and one
    `sm90.select_cut` may use it.

    (C1) work is [1, 2240] i32, linear.
  }];
  let arguments = (ins Arg<Sm90_Smem, "", [MemWrite]>:$work);
  let assemblyFormat = "$work attr-dict `:` type($work)";
  let hasVerifier = 1;
}

def Sm90_SelectCountUpOp : Sm90_Op<"select_count_up"> {
  let summary = "the positions of a row that is selected whole";
  let description = [{
    `out[row, i] = i` for i < length, else -1.

    (C1) out is [rows, K] i32 with a static K.
  }];
  let arguments = (ins Arg<Sm90_View, "", [MemWrite]>:$out, Index:$row, Index:$length);
  let assemblyFormat = "$length `to` $out `[` $row `]` attr-dict `:` type($out)";
  let hasVerifier = 1;
}

def Sm90_SelectKeepOp : Sm90_Op<"select_keep"> {
  let summary = "the candidates among a part of a row";
  let description = [{
    Keeps of `values[row, begin:end]` what reaches a bound. If `length`, of the whole row, is at most the
    list's capacity, the bound is -infinity. Else it is that value of a sample of the row whose rank there makes it
    likely that at least K values of the row reach it; all CTAs that are given one row find the same bound, and
    read the sample from the row, not from their part.

    `count` is how many were kept; above the capacity the list holds only some of them.

    The sample is four values for each thread, 16 where a row has more than 262144: with few
    samples a bound far from the K-th largest value would keep more than a list holds.

    (C1) values are [rows, columns] f32. (C2) list is [2, C] f32, linear, with room for the samples: 2 C is at least
    16 for each thread. (C3) work as in `sm90.select_begin`.
  }];
  let arguments = (ins Arg<Sm90_View, "", [MemRead]>:$values, Index:$row, Index:$begin, Index:$end,
                       Index:$length, I64Attr:$rank,
                       Arg<Sm90_Smem, "", [MemWrite]>:$list,
                       Arg<Sm90_Smem, "", [MemRead, MemWrite]>:$work);
  let results = (outs I32:$count);
  let assemblyFormat = [{
    $values `[` $row `]` `range` $begin `to` $end `of` $length `rank` $rank `to` $list `work` $work
    attr-dict `:` type($values) `,` type($list) `,` type($work)
  }];
  let hasVerifier = 1;
}

def Sm90_SelectHoldOp : Sm90_Op<"select_hold"> {
  let summary = "a whole row as a list in order";
  let description = [{
    Copies `values[row, 0:length]`, at most as many as the list's capacity, to the list, in order.
    `count` is how many of them are numbers.

    (C1) values are [rows, columns] f32. (C2) list is [2, C] f32, linear. (C3) work as in
    `sm90.select_begin`.
  }];
  let arguments = (ins Arg<Sm90_View, "", [MemRead]>:$values, Index:$row, Index:$length,
                       Arg<Sm90_Smem, "", [MemWrite]>:$list,
                       Arg<Sm90_Smem, "", [MemRead, MemWrite]>:$work);
  let results = (outs I32:$count);
  let assemblyFormat = [{
    $values `[` $row `]` `of` $length `to` $list `work` $work attr-dict
    `:` type($values) `,` type($list) `,` type($work)
  }];
  let hasVerifier = 1;
}

def Sm90_SelectMeetOp : Sm90_Op<"select_meet"> {
  let summary = "CTAs of one row put their lists together";
  let description = [{
    Each of `programs` CTAs appends its list to `lists[row]`, which has the same capacity. The last one to arrive
    is told so (`is_last`), has everything in its list, and leaves `counters[2 * row]` and the next
    as it found them, zeros. `total` is the sum of all counts; above the capacity the list is of no use. Of the other
    CTAs it means nothing.

    (C1) lists are [rows, 2, C] f32 with the list's C. (C2) list and work as in `sm90.select_keep`.
  }];
  let arguments = (ins Arg<Sm90_Smem, "", [MemRead, MemWrite]>:$list, I32:$count,
                       Arg<Sm90_Smem, "", [MemRead, MemWrite]>:$work,
                       Arg<Sm90_View, "", [MemRead, MemWrite]>:$lists,
                       Arg<Sm90_IndexList, "", [MemRead, MemWrite]>:$counters,
                       Index:$row, Index:$programs);
  let results = (outs I1:$is_last, I32:$total);
  let assemblyFormat = [{
    $list `of` $count `at` $lists `[` $row `]` `counters` $counters `programs` $programs `work` $work
    attr-dict `:` type($list) `,` type($lists) `,` type($counters) `,` type($work)
  }];
  let hasVerifier = 1;
}

def Sm90_SelectCutOp : Sm90_Op<"select_cut", [AttrSizedOperandSegments]> {
  let summary = "where the K largest values of a list, or of a row, end";
  let description = [{
    A value is selected if its key is above `key`, or equals it and its position is below `before` (unsigned).
    Searches the first `count` candidates of a list, of which at least K are numbers, and all if it is
    not `in_order`; or `values[row, 0:count]`, of more than K values. Of a list one histogram of 2048 equal bins between the least and the
    largest usually leaves a handful of values to compare; what does not fit that, and rows, are
    searched by radix on keys, 11 bits a pass.

    (C1) a list [2, C] f32, or values [rows, columns] f32 with a row, which are not in_order. (C2) work
    as in `sm90.select_begin`.
  }];
  let arguments = (ins Arg<Optional<Sm90_Smem>, "", [MemRead]>:$list, UnitAttr:$in_order,
                       Arg<Optional<Sm90_View>, "", [MemRead]>:$values, Optional<Index>:$row,
                       I32:$count, I64Attr:$rank,
                       Arg<Sm90_Smem, "", [MemRead, MemWrite]>:$work);
  let results = (outs I32:$key, I32:$before);
  let assemblyFormat = [{
    (`list` `(` $list^ `:` type($list) `)`)? (`in_order` $in_order^)?
    (`values` `(` $values^ `:` type($values) `)` `[` $row `]`)? `of` $count `rank` $rank
    `work` $work attr-dict `:` type($work)
  }];
  let hasVerifier = 1;
}

def Sm90_SelectWriteOp : Sm90_Op<"select_write", [AttrSizedOperandSegments]> {
  let summary = "writes the selected positions in order";
  let description = [{
    `out[row, 0:K]` becomes the positions, ascending, of what lies on the right side of a cut: of the first
    `count` candidates of a list, whose positions are below `length`, or of `values[row, 0:length]`. Selected
    elements become bits of `bitmap`, which has a place for so many positions at a time as it has bits; the place
    of one is the number of bits before its own: those before its block of four words, which are counted
    in `places`, and those in it.

    (C1) a list with a count, or values. (C2) out is [rows, K] i32 with a static K. (C3) bitmap is [1, 4 P] i32, places
    is [1, P] i32, linear. (C4) work as in `sm90.select_begin`.
  }];
  let arguments = (ins Arg<Optional<Sm90_Smem>, "", [MemRead]>:$list, Optional<I32>:$count,
                       Arg<Optional<Sm90_View>, "", [MemRead]>:$values,
                       Index:$length, I32:$key, I32:$before,
                       Arg<Sm90_View, "", [MemWrite]>:$out, Index:$row,
                       Arg<Sm90_Smem, "", [MemRead, MemWrite]>:$bitmap,
                       Arg<Sm90_Smem, "", [MemRead, MemWrite]>:$places,
                       Arg<Sm90_Smem, "", [MemRead, MemWrite]>:$work);
  let assemblyFormat = [{
    (`list` `(` $list^ `:` type($list) `)` `of` $count)? (`values` `(` $values^ `:` type($values) `)`)?
    `length` $length `cut` $key `,` $before
    `to` $out `[` $row `]` `bitmap` $bitmap `places` $places `work` $work
    attr-dict `:` type($out) `,` type($bitmap) `,` type($places) `,` type($work)
  }];
  let hasVerifier = 1;
}

def Sm90_SelectWriteInOrderOp : Sm90_Op<"select_write_in_order"> {
  let summary = "writes the selected positions of a list in order";
  let description = [{
    As `sm90.select_write` of a list that is in order, whose places need no bitmap: warps have runs of it, and the place
    of an element is the number of selected ones in the runs before and before it in its own.

    (C1) a list [2, C] f32. (C2) out is [rows, K] i32 with a static K. (C3) work as in
    `sm90.select_begin`.
  }];
  let arguments = (ins Arg<Sm90_Smem, "", [MemRead]>:$list, I32:$count, I32:$key, I32:$before,
                       Arg<Sm90_View, "", [MemWrite]>:$out, Index:$row,
                       Arg<Sm90_Smem, "", [MemRead, MemWrite]>:$work);
  let assemblyFormat = [{
    $list `of` $count `cut` $key `,` $before `to` $out `[` $row `]` `work` $work attr-dict
    `:` type($list) `,` type($out) `,` type($work)
  }];
  let hasVerifier = 1;
}

def Sm90_SetBitsOp : Sm90_Op<"set_bits"> {
  let summary = "the numbers of a list as bits of a row";
  let description = [{
    As `tile.set_bits`, of as many words at a time as `work` has. One warpgroup is enough for it.

    (C1) list and out are [rows, columns] i32, the list's columns static. (C2) work is [1, W] i32, linear,
    W a multiple of 4.
  }];
  let arguments = (ins Arg<Sm90_View, "", [MemRead]>:$list, Index:$row, Index:$first,
                       Arg<Sm90_View, "", [MemWrite]>:$out,
                       Arg<Sm90_Smem, "", [MemRead, MemWrite]>:$work);
  let assemblyFormat = [{
    $list `[` $row `]` `from` $first `to` $out `work` $work attr-dict
    `:` type($list) `,` type($out) `,` type($work)
  }];
  let hasVerifier = 1;
}

#endif // MLA_DIALECT_SM90_IR_SM90SELECTOPS_TD
