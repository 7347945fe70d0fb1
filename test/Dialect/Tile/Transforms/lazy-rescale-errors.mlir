// RUN: mla-opt %s --pass-pipeline='builtin.module(tile.kernel(tile-lazy-rescale{threshold=16}))' --verify-diagnostics

// expected-error @+1 {{expected a threshold from 0 to 15 for its maximum, got 1.600000e+01}}
tile.kernel @too_far() {
  tile.return
}
