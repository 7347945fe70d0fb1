//===- Kernels.h - tile kernels that tests and the benchmark share ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_TEST_UNIT_TARGET_CPU_KERNELS_H
#define MLAC_TEST_UNIT_TARGET_CPU_KERNELS_H

#include "KernelRunner.h"

namespace mlac::test {

struct GemmTile {
  int64_t m, n, k;
};

/// C[m, n] = A[m, k] B, with B [n, k] (transposed) or [k, n].
inline constexpr const char *kGemm = R"(
tile.kernel @gemm(%a: memref<?x$T>, %b: memref<?x$T>, %c: memref<?xf32>,
                  %m: index, %n: index, %k: index) {
  %c0 = arith.constant 0 : index
  %ck = arith.constant $TK : index
  %cm = arith.constant $TM : index
  %cn = arith.constant $TN : index
  %p0 = tile.program_id 0
  %p1 = tile.program_id 1
  %row = arith.muli %p0, %cm : index
  %col = arith.muli %p1, %cn : index
  %av = memref.reinterpret_cast %a to offset: [0], sizes: [%m, %k], strides: [%k, 1]
      : memref<?x$T> to memref<?x?x$T, strided<[?, 1]>>
  %bv = memref.reinterpret_cast %b to offset: [0], sizes: [$BSIZES], strides: [$BSTRIDE, 1]
      : memref<?x$T> to memref<?x?x$T, strided<[?, 1]>>
  %cv = memref.reinterpret_cast %c to offset: [0], sizes: [%m, %n], strides: [%n, 1]
      : memref<?xf32> to memref<?x?xf32, strided<[?, 1]>>
  %zero = arith.constant dense<0.0> : tensor<$TMx$TNxf32>
  %r = scf.for %i = %c0 to %k step %ck iter_args(%acc = %zero) -> (tensor<$TMx$TNxf32>) {
    %x = tile.load %av[%row, %i] : memref<?x?x$T, strided<[?, 1]>> -> tensor<$TMx$TKx$T>
    %y = tile.load %bv[$BOFFSETS] : memref<?x?x$T, strided<[?, 1]>> -> tensor<$BTILEx$T>
    %d = tile.dot %x, %y, %acc $TRANSPOSE
        : tensor<$TMx$TKx$T>, tensor<$BTILEx$T> -> tensor<$TMx$TNxf32>
    scf.yield %d : tensor<$TMx$TNxf32>
  }
  tile.store %r, %cv[%row, %col] : tensor<$TMx$TNxf32>, memref<?x?xf32, strided<[?, 1]>>
  tile.return
}
)";

inline std::string gemmText(const std::string &type, const GemmTile &tile, bool transposed) {
  std::string tm = std::to_string(tile.m), tn = std::to_string(tile.n), tk = std::to_string(tile.k);
  return substitute(kGemm, {{"T", type},
                            {"TM", tm},
                            {"TN", tn},
                            {"TK", tk},
                            {"BSIZES", transposed ? "%n, %k" : "%k, %n"},
                            {"BSTRIDE", transposed ? "%k" : "%n"},
                            {"BOFFSETS", transposed ? "%col, %i" : "%i, %col"},
                            {"BTILE", transposed ? tn + "x" + tk : tk + "x" + tn},
                            {"TRANSPOSE", transposed ? "transpose_rhs" : ""}});
}

/// One program per request: $H heads of one query token attend `seq_lens[b]`
/// cached tokens through the block table (online softmax in base 2).
inline constexpr const char *kDecode = R"(
!q = tensor<$Hx576x$T>
!kv = tensor<64x576x$T>
!s = tensor<$Hx64xf32>
!o = tensor<$Hx512xf32>
!r = tensor<$Hxf32>
tile.kernel @decode(%query: memref<?x$T>, %pool: memref<?x$T>, %table: memref<?xi32>,
                    %lens: memref<?xi32>, %output: memref<?xf32>, %lse: memref<?xf32>,
                    %pages: index, %blocks: index, %scale: f32) {
  %c0 = arith.constant 0 : index
  %ch = arith.constant $H : index
  %c64 = arith.constant 64 : index
  %b = tile.program_id 0
  %len32 = memref.load %lens[%b] : memref<?xi32>
  %len = arith.index_cast %len32 : i32 to index
  %row = arith.muli %b, %ch : index
  %bt_off = arith.muli %b, %blocks : index
  %all = arith.constant 1073741824 : index
  %qv = memref.reinterpret_cast %query to offset: [0], sizes: [%all, 576], strides: [576, 1] : memref<?x$T> to memref<?x576x$T, strided<[576, 1]>>
  %ov = memref.reinterpret_cast %output to offset: [0], sizes: [%all, 512], strides: [512, 1] : memref<?xf32> to memref<?x512xf32, strided<[512, 1]>>
  %lv = memref.reinterpret_cast %lse to offset: [0], sizes: [%all], strides: [1] : memref<?xf32> to memref<?xf32, strided<[1]>>
  %bt = memref.reinterpret_cast %table to offset: [%bt_off], sizes: [%blocks], strides: [1] : memref<?xi32> to memref<?xi32, strided<[1], offset: ?>>
  %pv = memref.reinterpret_cast %pool to offset: [0], sizes: [%pages, 16, 576], strides: [9216, 576, 1] : memref<?x$T> to memref<?x16x576x$T, strided<[9216, 576, 1]>>
  %q = tile.load %qv[%row, %c0] : memref<?x576x$T, strided<[576, 1]>> -> !q
  %zero_s = arith.constant dense<0.0> : !s
  %zero_o = arith.constant dense<0.0> : !o
  %m0 = arith.constant dense<-1.0e30> : !r
  %l0 = arith.constant dense<0.0> : !r
  %ninf = arith.constant dense<0xFF800000> : !s
  %scales = tile.splat %scale : f32 -> !s
  %m, %l, %acc = scf.for %t = %c0 to %len step %c64 iter_args(%mi = %m0, %li = %l0, %ai = %zero_o) -> (!r, !r, !o) {
    %k = tile.load_paged %pv[%bt at %t, %c0] limit %len : memref<?x16x576x$T, strided<[9216, 576, 1]>>, memref<?xi32, strided<[1], offset: ?>> -> !kv
    %s = tile.dot %q, %k, %zero_s transpose_rhs : !q, !kv -> !s
    %s2 = arith.mulf %s, %scales : !s
    %j = tile.iota 1 : tensor<$Hx64xi32>
    %left = arith.subi %len, %t : index
    %left32 = arith.index_cast %left : index to i32
    %lefts = tile.splat %left32 : i32 -> tensor<$Hx64xi32>
    %ok = arith.cmpi slt, %j, %lefts : tensor<$Hx64xi32>
    %sm = arith.select %ok, %s2, %ninf : tensor<$Hx64xi1>, !s
    %mt = tile.reduce max %sm : !s -> !r
    %mn = arith.maximumf %mi, %mt : !r
    %md = arith.subf %mi, %mn : !r
    %al = math.exp2 %md : !r
    %mb = tile.broadcast %mn : !r -> !s
    %sd = arith.subf %sm, %mb : !s
    %p = math.exp2 %sd : !s
    %ps = tile.reduce sum %p : !s -> !r
    %lal = arith.mulf %li, %al : !r
    %ln = arith.addf %lal, %ps : !r
    %ab = tile.broadcast %al : !r -> !o
    %as = arith.mulf %ai, %ab : !o
    %v = tensor.extract_slice %k[0, 0] [64, 512] [1, 1] : !kv to tensor<64x512x$T>
    $NARROW
    %an = tile.dot %pt, %v, %as : tensor<$Hx64x$T>, tensor<64x512x$T> -> !o
    scf.yield %mn, %ln, %an : !r, !r, !o
  }
  %zero_r = arith.constant dense<0.0> : !r
  %one_r = arith.constant dense<1.0> : !r
  %empty = arith.cmpf oeq, %l, %zero_r : !r
  %safe = arith.select %empty, %one_r, %l : tensor<$Hxi1>, !r
  %inv = arith.divf %one_r, %safe : !r
  %invb = tile.broadcast %inv : !r -> !o
  %out = arith.mulf %acc, %invb : !o
  tile.store %out, %ov[%row, %c0] : !o, memref<?x512xf32, strided<[512, 1]>>
  %log = math.log2 %l : !r
  %sum = arith.addf %m, %log : !r
  %ln2 = arith.constant dense<0.69314718> : !r
  %lse_v = arith.mulf %sum, %ln2 : !r
  tile.store %lse_v, %lv[%row] : !r, memref<?xf32, strided<[1]>>
  tile.return
}
)";

inline std::string decodeText(const std::string &type, int64_t heads) {
  std::string narrow =
      type == "f32" ? "%one = arith.constant dense<1.0> : !s\n    %pt = arith.mulf %p, %one : !s"
                    : "%pt = arith.truncf %p : !s to tensor<$Hx64x$T>";
  return substitute(substitute(kDecode, {{"NARROW", narrow}}),
                    {{"T", type}, {"H", std::to_string(heads)}});
}

} // namespace mlac::test

#endif // MLAC_TEST_UNIT_TARGET_CPU_KERNELS_H
