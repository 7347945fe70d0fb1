// Any number of heads up to 128 on a rank, as they are; more are an error before anything is built.
//
// RUN: sed 's/"num_attention_heads": 64/"num_attention_heads": 129/; s/"o_groups": 8/"o_groups": 1/' %data/configs/deepseek_v4.json > %t.129.json
// RUN: not mla-compile %t.129.json --emit=mla 2>&1 | FileCheck %s --check-prefix=MORE
// RUN: sed 's/"num_attention_heads": 64/"num_attention_heads": 65/; s/"o_groups": 8/"o_groups": 5/' %data/configs/deepseek_v4.json > %t.65.json
// RUN: mla-compile %t.65.json --emit=mla --quiet | FileCheck %s --check-prefix=ODD

// MORE: num_attention_heads: 129 heads on a rank, expected 1 to 128
// ODD: mla.sparse_attention query(%{{.*}} : tensor<?x65x512xbf16>)

module {}
