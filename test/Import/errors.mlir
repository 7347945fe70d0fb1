// RUN: not mla-opt %s --mla-import-config="config=%S/Inputs/wrong.json tp=3" 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: not mla-opt %s --mla-import-config="config=%S/Inputs/unknown.json" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not mla-opt %s --mla-import-config="config=%S/absent.json" 2>&1 | FileCheck %s --check-prefix=ABSENT
// RUN: not mla-opt %s --mla-import-config 2>&1 | FileCheck %s --check-prefix=NOPATH
// RUN: not mla-opt %s --mla-import-config="config=%s" 2>&1 | FileCheck %s --check-prefix=NOTJSON
// RUN: not mla-opt %s --mla-import-config="config=%data/configs/deepseek_v3.json page-size=0" 2>&1 | FileCheck %s --check-prefix=PAGE
// RUN: not mla-opt %s --mla-import-config="config=%data/configs/deepseek_v3.json dtype=i8" 2>&1 | FileCheck %s --check-prefix=DTYPE

// WRONG: wrong.json:{{[0-9]+:[0-9]+}}: kv_lora_rank = 0: expected an integer from 1 to 1048576
// WRONG: wrong.json:{{[0-9]+:[0-9]+}}: qk_rope_head_dim = 7: expected an even number
// WRONG: wrong.json:{{[0-9]+:[0-9]+}}: num_attention_heads = 4: expected a multiple of the tensor-parallel degree 3
// WRONG: wrong.json:{{[0-9]+:[0-9]+}}: rope_scaling.factor is missing: yarn needs it
// UNKNOWN: unknown.json:{{[0-9]+:[0-9]+}}: model_type = "bert": it is not known; --like=TYPE reads it as one that is:
// UNKNOWN-NEXT: {{^}}  axk1, deepseek_v2, deepseek_v3
// ABSENT: cannot read option config = '{{.*}}absent.json': No such file or directory
// NOPATH: cannot read option config = ''
// NOTJSON: errors.mlir:1:1: not valid JSON
// PAGE: page size 0, expected 1 to 65536
// DTYPE: i8

// RUN: not mla-opt %s --mla-import-config="config=%data/configs/deepseek_v3_tiny.json decode-threshold=-1" 2>&1 | FileCheck %s --check-prefix=THRESHOLD
// THRESHOLD: error: option decode-threshold = -1, expected at least 0
