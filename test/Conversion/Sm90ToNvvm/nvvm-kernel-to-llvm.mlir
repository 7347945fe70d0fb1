// RUN: mla-opt %s --pass-pipeline='builtin.module(llvm.func(convert-nvvm-kernel-to-llvm))' | FileCheck %s

// Rounded divisions have no LLVM instruction: they are expanded first.
// CHECK-LABEL: llvm.func @divisions
// CHECK-NOT:   arith.
// CHECK:       llvm.sdiv
// CHECK-NOT:   arith.
// CHECK:       llvm.return
llvm.func @divisions(%a: i64, %b: i64, %p: !llvm.ptr<1>) attributes {nvvm.kernel} {
  %x = builtin.unrealized_conversion_cast %a : i64 to index
  %y = builtin.unrealized_conversion_cast %b : i64 to index
  %c = arith.ceildivsi %x, %y : index
  %f = arith.floordivsi %c, %y : index
  %r = builtin.unrealized_conversion_cast %f : index to i64
  llvm.store %r, %p : i64, !llvm.ptr<1>
  llvm.return
}
