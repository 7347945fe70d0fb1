// RUN: mla-opt %s --split-input-file --verify-diagnostics | FileCheck %s

// Tables with a row for each token, whatever its position.

// CHECK-LABEL: func @rope
// CHECK: mla.rope %{{.*}} {mla.by_token} : tensor<?x8xf32>, tensor<?x8xf32>
func.func @rope(%x: tensor<?x8xf32>, %t: tensor<?x8xf32>, %b: !mla.batch) -> tensor<?x8xf32> {
  %y = mla.rope %x, %t, %b with <order = half, dim = 8, theta = 1.0, length = 16> {mla.by_token} : tensor<?x8xf32>, tensor<?x8xf32>, !mla.batch
  return %y : tensor<?x8xf32>
}

// -----

func.func @length(%x: tensor<?x8xf32>, %t: tensor<16x8xf32>, %b: !mla.batch) -> tensor<?x8xf32> {
  // expected-error @+1 {{expected a table of the tokens of 'tensor<?x8xf32>' by mla.by_token, got 'tensor<16x8xf32>'}}
  %y = mla.rope %x, %t, %b with <order = half, dim = 8, theta = 1.0, length = 16> {mla.by_token} : tensor<?x8xf32>, tensor<16x8xf32>, !mla.batch
  return %y : tensor<?x8xf32>
}

// -----

func.func @every(%x: tensor<?x8xf32>, %t: tensor<?x8xf32>, %b: !mla.batch) -> tensor<?x8xf32> {
  // expected-error @+1 {{expected no every beside mla.by_token}}
  %y = mla.rope %x, %t, %b with <order = half, dim = 8, theta = 1.0, length = 16> every 4 {mla.by_token} : tensor<?x8xf32>, tensor<?x8xf32>, !mla.batch
  return %y : tensor<?x8xf32>
}

// -----

func.func @elsewhere(%t: tensor<?x8xf32>, %b: !mla.batch) {
  // expected-error @+1 {{mla.by_token}}
  %y = mla.rope_table <order = half, dim = 8, theta = 1.0, length = 16> {mla.by_token} : tensor<?x8xf32>
  return
}
