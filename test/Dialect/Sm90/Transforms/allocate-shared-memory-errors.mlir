// RUN: mla-opt %s --pass-pipeline='builtin.module(sm90.kernel(sm90-allocate-shared-memory))' --verify-diagnostics

// expected-error @+1 {{kernel 'too_much': needs 262144 bytes of shared memory, more than the limit of 232448}}
sm90.kernel @too_much() attributes {warpgroups = 1 : i32} {
  // expected-note @+1 {{'!sm90.smem<128x512xbf16>' takes 131072 bytes}}
  %a = sm90.alloc : !sm90.smem<128x512xbf16>
  // expected-note @+1 {{'!sm90.smem<128x512xbf16>' takes 131072 bytes}}
  %b = sm90.alloc : !sm90.smem<128x512xbf16>
  sm90.return
}

// One stage more than fits: every ring is named with what it takes.
// expected-error @+1 {{kernel 'rings': needs 237800 bytes of shared memory, more than the limit of 232448}}
sm90.kernel @rings() attributes {warpgroups = 1 : i32} {
  // expected-note @+2 {{'!sm90.ring<stages = 29, parts = 1, tiles = [<64x64xbf16>]>' takes 237568 bytes}}
  // expected-note @+1 {{29 barriers take 232 bytes}}
  %r = sm90.ring "tiles" full_count 1 empty_count 0 : !sm90.ring<stages = 29, parts = 1, tiles = [!sm90.smem<64x64xbf16>]>
  sm90.return
}
