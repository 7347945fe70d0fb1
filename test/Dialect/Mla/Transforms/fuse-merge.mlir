// A33: attention goes on from the partial that its own would be merged with.
//
// RUN: mla-opt %s --mla-fuse-merge | FileCheck %s
// RUN: mla-opt %s --mla-fuse-merge --mla-fuse-merge | FileCheck %s

!q = tensor<?x4x16xbf16>
!partial = tensor<?x4x16xf32>
!lse = tensor<?x4xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
!lse2 = tensor<?x4xf32, #mla.lse<base = two, layout = token_major, empty = neg_inf>>

// What mla-chunk-context makes: each chunk goes on from the one before, the new tokens
// from all of them. They move behind the loop and write the result's type.
// CHECK-LABEL: func @chunks_A33
// CHECK-NOT: mla.expanded_attention
// CHECK: %[[CTX:.*]]:2 = scf.for %[[I:.*]] = {{.*}} iter_args(%[[ACC:.*]] = %{{.*}}, %[[ACC_LSE:.*]] = %{{.*}})
// CHECK:   %[[O:.*]], %[[L:.*]] = mla.expanded_attention {{.*}} chunk %[[I]] onto(%[[ACC]], %[[ACC_LSE]] : {{.*}} -> tensor<?x4x16xf32>, tensor<?x4xf32
// CHECK-NEXT: scf.yield %[[O]], %[[L]]
// CHECK: %[[ALL:.*]] = mla.expanded_attention {{.*}} onto(%[[CTX]]#0, %[[CTX]]#1 : {{.*}} {hint = 1 : i32} -> tensor<?x4x16xbf16>{{$}}
// CHECK: return %[[ALL]]
func.func @chunks_A33(%q: !q, %k: !q, %batch: !mla.batch, %n: index) -> !q {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %new, %new_lse = mla.expanded_attention query(%q : !q) keys(%q : !q) values(%q : !q) over %batch : !mla.batch
      scale 0.5 {hint = 1 : i32} -> !partial, !lse
  %none, %none_lse = mla.empty_partial %batch : !mla.batch -> !partial, !lse
  %ctx:2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %none, %acc_lse = %none_lse) -> (!partial, !lse) {
    %o, %l = mla.expanded_attention query(%q : !q) keys(%k : !q) values(%k : !q) over %batch : !mla.batch
        chunk %i scale 0.5 -> !partial, !lse
    %m, %ml = mla.merge %acc, %acc_lse with %o, %l : !partial, !lse with !partial, !lse -> !partial, !lse
    scf.yield %m, %ml : !partial, !lse
  }
  %all = mla.merge %ctx#0, %ctx#1 with %new, %new_lse : !partial, !lse with !partial, !lse -> !q
  return %all : !q
}

// Either side, the LSE too, and of two attentions the second.
// CHECK-LABEL: func @sides
// CHECK-SAME: %[[P:[a-z0-9_]+]]: tensor<?x4x16xf32>, %[[PL:[a-z0-9_]+]]:
// CHECK: %[[O:.*]], %[[L:.*]] = mla.expanded_attention {{.*}} onto(%[[P]], %[[PL]]
// CHECK: %[[A:.*]], %[[AL:.*]] = mla.expanded_attention query(%{{[^)]*}}) keys(%{{[^)]*}}) values(%{{[^)]*}}) over %{{.*}} : <query_len = ?> scale
// CHECK: %[[B:.*]] = mla.expanded_attention {{.*}} onto(%[[A]], %[[AL]]
// CHECK-NOT: mla.merge
// CHECK: return %[[O]], %[[L]], %[[B]]
func.func @sides(%p: !partial, %pl: !lse, %q: !q, %batch: !mla.batch) -> (!partial, !lse, !q) {
  %o, %l = mla.expanded_attention query(%q : !q) keys(%q : !q) values(%q : !q) over %batch : !mla.batch scale 0.5 -> !partial, !lse
  %m, %ml = mla.merge %o, %l with %p, %pl : !partial, !lse with !partial, !lse -> !partial, !lse
  %a, %al = mla.expanded_attention query(%q : !q) keys(%q : !q) values(%q : !q) over %batch : !mla.batch scale 0.5 -> !partial, !lse
  %b, %bl = mla.expanded_attention query(%q : !q) keys(%q : !q) values(%q : !q) over %batch : !mla.batch scale 0.25 -> !partial, !lse
  %n = mla.merge %a, %al with %b, %bl : !partial, !lse with !partial, !lse -> !q
  return %m, %ml, %n : !partial, !lse, !q
}

// The partial's output is used again, or its LSE is: it has to be computed by itself.
// CHECK-LABEL: func @used_twice
// CHECK-COUNT-2: mla.merge
// CHECK-NOT: onto
// CHECK: return
func.func @used_twice(%p: !partial, %pl: !lse, %q: !q, %batch: !mla.batch) -> (!partial, !partial, !partial, !lse) {
  %o, %l = mla.expanded_attention query(%q : !q) keys(%q : !q) values(%q : !q) over %batch : !mla.batch scale 0.5 -> !partial, !lse
  %m = mla.merge %p, %pl with %o, %l : !partial, !lse with !partial, !lse -> !partial
  %o2, %l2 = mla.expanded_attention query(%q : !q) keys(%q : !q) values(%q : !q) over %batch : !mla.batch scale 0.5 -> !partial, !lse
  %m2 = mla.merge %p, %pl with %o2, %l2 : !partial, !lse with !partial, !lse -> !partial
  return %m, %o, %m2, %l2 : !partial, !partial, !partial, !lse
}

// It would run in every iteration.
// CHECK-LABEL: func @outside_of_the_loop
// CHECK: mla.expanded_attention
// CHECK: scf.for
// CHECK: mla.merge
func.func @outside_of_the_loop(%p: !partial, %pl: !lse, %q: !q, %batch: !mla.batch, %n: index) -> !partial {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %o, %l = mla.expanded_attention query(%q : !q) keys(%q : !q) values(%q : !q) over %batch : !mla.batch scale 0.5 -> !partial, !lse
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %p, %acc_lse = %pl) -> (!partial, !lse) {
    %m, %ml = mla.merge %acc, %acc_lse with %o, %l : !partial, !lse with !partial, !lse -> !partial, !lse
    scf.yield %m, %ml : !partial, !lse
  }
  return %r#0 : !partial
}

// Conventions that differ are converted before the merge: what is merged is not what
// attention wrote.
// CHECK-LABEL: func @converted
// CHECK: mla.merge
// CHECK-NOT: onto
func.func @converted(%p: !partial, %pl: !lse2, %q: !q, %batch: !mla.batch) -> !partial {
  %o, %l = mla.expanded_attention query(%q : !q) keys(%q : !q) values(%q : !q) over %batch : !mla.batch scale 0.5 -> !partial, !lse
  %l2 = mla.convert_lse %l : !lse -> !lse2
  %back = mla.convert_lse %l2 : !lse2 -> !lse
  %pe = mla.convert_lse %pl : !lse2 -> !lse
  %m = mla.merge %p, %pe with %o, %back : !partial, !lse with !partial, !lse -> !partial
  return %m : !partial
}

// A rounded partial, a result that attention cannot write, a partial with itself, and
// one that has a partial to go on from already.
// CHECK-LABEL: func @types
// CHECK-COUNT-3: mla.merge
// CHECK: %[[O4:.*]], %[[L4:.*]] = mla.expanded_attention {{.*}} onto
// CHECK: mla.merge %{{.*}}, %{{.*}} with %[[O4]], %[[L4]]
func.func @types(%p: !partial, %pl: !lse, %half: !q, %q: !q, %batch: !mla.batch) -> (!partial, tensor<?x4x16xf16>, !partial, !partial) {
  %o, %l = mla.expanded_attention query(%q : !q) keys(%q : !q) values(%q : !q) over %batch : !mla.batch scale 0.5 -> !partial, !lse
  %m = mla.merge %half, %pl with %o, %l : !q, !lse with !partial, !lse -> !partial
  %o2, %l2 = mla.expanded_attention query(%q : !q) keys(%q : !q) values(%q : !q) over %batch : !mla.batch scale 0.5 -> !partial, !lse
  %m2 = mla.merge %p, %pl with %o2, %l2 : !partial, !lse with !partial, !lse -> tensor<?x4x16xf16>
  %o3, %l3 = mla.expanded_attention query(%q : !q) keys(%q : !q) values(%q : !q) over %batch : !mla.batch scale 0.5 -> !partial, !lse
  %m3 = mla.merge %o3, %l3 with %o3, %l3 : !partial, !lse with !partial, !lse -> !partial
  %o4, %l4 = mla.expanded_attention query(%q : !q) keys(%q : !q) values(%q : !q) over %batch : !mla.batch
      onto(%p, %pl : !partial, !lse) scale 0.5 -> !partial, !lse
  %m4 = mla.merge %p, %pl with %o4, %l4 : !partial, !lse with !partial, !lse -> !partial
  return %m, %m2, %m3, %m4 : !partial, tensor<?x4x16xf16>, !partial, !partial
}
