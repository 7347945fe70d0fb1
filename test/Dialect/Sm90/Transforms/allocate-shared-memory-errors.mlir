// RUN: mla-opt %s --pass-pipeline='builtin.module(sm90.kernel(sm90-allocate-shared-memory))' --verify-diagnostics

// expected-error @+1 {{needs 262144 bytes of shared memory, more than the limit of 232448}}
sm90.kernel @too_much() attributes {warpgroups = 1 : i32} {
  // expected-note @+1 {{'!sm90.smem<128x512xbf16>' takes 131072 bytes}}
  %a = sm90.alloc : !sm90.smem<128x512xbf16>
  // expected-note @+1 {{'!sm90.smem<128x512xbf16>' takes 131072 bytes}}
  %b = sm90.alloc : !sm90.smem<128x512xbf16>
  sm90.return
}
