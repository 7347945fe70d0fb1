// RUN: mla-opt %s --convert-sm90-to-nvvm --split-input-file --verify-diagnostics

sm90.kernel @no_offset() attributes {warpgroups = 1 : i32} {
  // expected-error @+2 {{has no offset; run sm90-allocate-shared-memory first}}
  // expected-error @+1 {{failed to legalize operation 'sm90.alloc'}}
  %t = sm90.alloc : !sm90.smem<64x64xbf16>
  sm90.return
}
