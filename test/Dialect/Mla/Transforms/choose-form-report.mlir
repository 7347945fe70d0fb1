// C07: the report shows what every form costs. DeepSeek-V3 attention without
// the projections around it; rates from the module's target.
//
// RUN: mla-opt %s --mla-choose-form=report -o /dev/null 2>&1 | FileCheck %s

// CHECK: cost of the attention layer: H 0, N 128, Lq 0, Lkv 512, P 128, R 64, V 128
// CHECK: target two_sms: 12.5 TFLOP/s, 100 GB/s, 3 us per launch
// CHECK: ratios are to the expanded form of the same step
// CHECK: crossover Sq* = Lkv(P+V)/(2Lkv-P-V) = 170.7 new tokens
// CHECK: requests 1, query_len 1, context_len 639
// CHECK-NEXT: core FLOPs total FLOPs FLOPs ratio {{.*}}predicted us time ratio
// CHECK-NEXT: expanded 2.153e+10 {{[^ ]*}} 1.0000 {{.*}} 1.0000{{$}}
// CHECK-NEXT: absorbed online 2.118e+08
// CHECK: expanded wins from query_len 153 with this context
// CHECK-NEXT: up-projection: one product per chunk, {{.*}} us with its attention over the context; fused into it {{.*}} us (bound by tensor cores), absorbed

!cache = !mla.cache<page_size = 64, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved>

module attributes {mla.target = #mla.target<"two_sms", num_sms = 2, matmul_tflops = 12.5, read_gbps = 100.0, launch_us = 3.0>} {
  func.func @decode_C07(%qn: tensor<?x128x128xbf16>, %qp: tensor<?x128x64xbf16>, %c: tensor<?x512xbf16>, %kp: tensor<?x64xbf16>,
      %uk: tensor<128x128x512xbf16>, %uv: tensor<128x128x512xbf16>, %cache: !cache, %batch: !mla.batch<query_len = 1>) -> tensor<?x128x128xbf16> {
    %0 = mla.attention query(%qn, %qp : tensor<?x128x128xbf16>, tensor<?x128x64xbf16>) latent(%c, %kp : tensor<?x512xbf16>, tensor<?x64xbf16>)
        weights(%uk, %uv : tensor<128x128x512xbf16>, tensor<128x128x512xbf16>) over %cache, %batch : !cache, !mla.batch<query_len = 1>
        scale 0.13523377886088009 -> tensor<?x128x128xbf16>
    return %0 : tensor<?x128x128xbf16>
  }
}
