// RUN: mla-opt %s --convert-mla-to-tile=target=sm90 --split-input-file --verify-diagnostics

func.func @unmarked(%x: tensor<?x8xf32>) {
  return
}
// expected-error@-3 {{expected argument 0 to be marked mla.input, mla.weight or mla.derived}}

// -----

// expected-error@+1 {{expected argument 0 to have a static shape, got 'tensor<?x8xf32>'}}
func.func @dynamic_weight(%x: tensor<?x8xf32> {mla.weight = "w"}) {
  return
}

// -----

func.func @unmarked_result(%x: tensor<?x8xf32> {mla.input = "x"}) -> tensor<?x8xf32> {
  // expected-error@+1 {{expected result 0 to be a cache or marked mla.output or mla.derived}}
  return %x : tensor<?x8xf32>
}

// -----

func.func @dequantize(%q: tensor<?x128xf8E4M3FN> {mla.input = "q"}, %s: tensor<?x1xf32> {mla.input = "s"}) {
  // expected-error@+1 {{has no kernels yet on any target}}
  %x = mla.dequantize %q, %s group 128 : tensor<?x128xf8E4M3FN>, tensor<?x1xf32> -> tensor<?x128xbf16>
  return
}

// -----

func.func @foreign(%x: tensor<?x8xf32> {mla.input = "x"}) {
  // expected-error@+1 {{is not supported in a step function}}
  %y = math.exp %x : tensor<?x8xf32>
  return
}

// -----

// sm90 holds 512 columns of an accumulator.
func.func @wide(%q: tensor<?x2x576xbf16> {mla.input = "q"}, %batch: !mla.batch,
    %cache: !mla.cache<page_size = 64, fields = [latent: 576], element = bf16, rope_order = half>)
    -> (tensor<?x2x576xbf16> {mla.output = "output"}) {
  // expected-error@+1 {{expected a kv_lora_rank of at most 512 in the absorbed form on sm_90a, got 576; the expanded form (--form=expanded) takes any, with a v_head_dim of at most 512}}
  %o = mla.absorbed_attention query(%q : tensor<?x2x576xbf16>)
      over %cache, %batch : <page_size = 64, fields = [latent: 576], element = bf16, rope_order = half>, <query_len = ?>
      scale 0.25 -> tensor<?x2x576xbf16>
  return %o : tensor<?x2x576xbf16>
}

// -----

// One query a request may have 1024, over rows that are no codes.
func.func @wide_decode(%q: tensor<?x2x1088xbf16> {mla.input = "q"}, %batch: !mla.batch<query_len = 1>,
    %cache: !mla.cache<page_size = 64, fields = [latent: 1088], element = bf16, rope_order = half>)
    -> (tensor<?x2x1088xbf16> {mla.output = "output"}) {
  // expected-error@+1 {{expected a kv_lora_rank of at most 1024 in the absorbed form on sm_90a, got 1088}}
  %o = mla.absorbed_attention query(%q : tensor<?x2x1088xbf16>)
      over %cache, %batch : <page_size = 64, fields = [latent: 1088], element = bf16, rope_order = half>, <query_len = 1>
      scale 0.25 -> tensor<?x2x1088xbf16>
  return %o : tensor<?x2x1088xbf16>
}

// -----

func.func @wide_codes(%q: tensor<?x2x640xbf16> {mla.input = "q"}, %batch: !mla.batch<query_len = 1>,
    %cache: !mla.cache<page_size = 64, fields = [latent: 640], element = bf16, rope_order = half, format = "mla_fp8_tensor">)
    -> (tensor<?x2x640xbf16> {mla.output = "output"}) {
  // expected-error@+1 {{expected a kv_lora_rank of at most 512 in the absorbed form on sm_90a, got 640}}
  %o = mla.absorbed_attention query(%q : tensor<?x2x640xbf16>)
      over %cache, %batch : <page_size = 64, fields = [latent: 640], element = bf16, rope_order = half, format = "mla_fp8_tensor">, <query_len = 1>
      scale 0.25 -> tensor<?x2x640xbf16>
  return %o : tensor<?x2x640xbf16>
}

// -----

func.func @exchange(%x: tensor<?x8xf32> {mla.input = "x"}, %y: tensor<?x8xf32> {mla.input = "y"}, %batch: !mla.batch)
    -> (tensor<?x8xf32> {mla.output = "a"}, tensor<?x8xf32> {mla.output = "b"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = mla.batch_dim %batch "num_chunks" : <query_len = ?>
  // expected-error@+1 {{expected a loop that does not exchange its carried tensors}}
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x, %b = %y) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
    scf.yield %b, %a : tensor<?x8xf32>, tensor<?x8xf32>
  }
  return %r#0, %r#1 : tensor<?x8xf32>, tensor<?x8xf32>
}

// -----

// What a pass for another target decided cannot be obeyed: the depth of 96 has no two parts of whole blocks.
func.func @parts(%x: tensor<?x96xbf16> {mla.input = "x"}, %w: tensor<64x96xbf16> {mla.weight = "w"}, %g: tensor<64xbf16> {mla.weight = "g"})
    -> (tensor<?x64xbf16> {mla.output = "output"}) {
  // expected-error@+1 {{expected products that sm_90a computes in 2 parts of their depth, got 1 of depth 96}}
  %y = mla.sum_parts 2 -> tensor<?x64xbf16> {
    %0 = mla.latent_project %x, %w, %g eps 1.0 : tensor<?x96xbf16>, tensor<64x96xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>
    mla.yield %0 : tensor<?x64xbf16>
  }
  return %y : tensor<?x64xbf16>
}

// -----

func.func @rows(%x: tensor<?x128xbf16> {mla.input = "x"}, %w: tensor<6208x128xbf16> {mla.weight = "w"}, %g: tensor<6208xbf16> {mla.weight = "g"})
    -> (tensor<?x6208xbf16> {mla.output = "output"}) {
  %y = mla.sum_parts 2 -> tensor<?x6208xbf16> {
    // expected-error@+1 {{expected rows of at most 64 equal parts of a multiple of 8 columns, at most 256, on sm_90a, got 6208 columns of the latent and 0 behind it}}
    %0 = mla.latent_project %x, %w, %g eps 1.0 : tensor<?x128xbf16>, tensor<6208x128xbf16>, tensor<6208xbf16> -> tensor<?x6208xbf16>
    mla.yield %0 : tensor<?x6208xbf16>
  }
  return %y : tensor<?x6208xbf16>
}

// -----

func.func @append(%x: tensor<?x128xbf16> {mla.input = "x"}, %w: tensor<576x128xbf16> {mla.weight = "w"}, %g: tensor<510xbf16> {mla.weight = "g"},
                  %batch: !mla.batch, %cache: !mla.cache<page_size = 64, fields = [latent: 510, rope: 66], element = bf16, rope_order = half>)
    -> !mla.cache<page_size = 64, fields = [latent: 510, rope: 66], element = bf16, rope_order = half> {
  %t = mla.rope_table <order = half, dim = 66, theta = 1.0e4, length = 64> : tensor<?x66xf32>
  // expected-error@+1 {{expected rows of at most 64 equal parts of a multiple of 8 columns, at most 256, on sm_90a, got 510 columns of the latent and 33 pairs of the rope key}}
  %new = mla.latent_append %x, %w, %g eps 1.0 rope %t with <order = half, dim = 66, theta = 1.0e4, length = 64> into %cache, %batch
    : tensor<?x128xbf16>, tensor<576x128xbf16>, tensor<510xbf16> rope tensor<?x66xf32>
    into <page_size = 64, fields = [latent: 510, rope: 66], element = bf16, rope_order = half>, <query_len = ?>
  return %new : !mla.cache<page_size = 64, fields = [latent: 510, rope: 66], element = bf16, rope_order = half>
}

// -----

func.func @heads_outermost_rope(%x: tensor<?x4x16xf32> {mla.input = "x", mla.heads_outermost}, %batch: !mla.batch)
    -> (tensor<?x4x16xf32> {mla.output = "y"}) {
  %table = mla.rope_table <order = half, dim = 16, theta = 1.0e4, length = 128> : tensor<?x16xf32>
  // expected-error@+1 {{cannot read argument 0, which is marked mla.heads_outermost: expected it to be the latent queries of mla.absorbed_attention or mla.sparse_attention alone}}
  %y = mla.rope %x, %table, %batch with <order = half, dim = 16, theta = 1.0e4, length = 128>
      : tensor<?x4x16xf32>, tensor<?x16xf32>, <query_len = ?>
  return %y : tensor<?x4x16xf32>
}

// -----

// Latent queries, but RoPE queries, too.
func.func @heads_outermost_rope_queries(%q: tensor<?x4x16xf32> {mla.input = "q", mla.heads_outermost}, %batch: !mla.batch<query_len = 1>,
                       %cache: !mla.cache<page_size = 4, fields = [latent: 16, rope: 16], element = f32, rope_order = half>)
    -> (tensor<?x4x16xf32> {mla.output = "o"}) {
  // expected-error@+1 {{cannot read argument 0, which is marked mla.heads_outermost}}
  %o = mla.absorbed_attention query(%q, %q : tensor<?x4x16xf32>, tensor<?x4x16xf32>)
      over %cache, %batch : <page_size = 4, fields = [latent: 16, rope: 16], element = f32, rope_order = half>, <query_len = 1>
      scale 0.5 -> tensor<?x4x16xf32>
  return %o : tensor<?x4x16xf32>
}

// -----

// The verifier of tensor.expand_shape reads places as 32 bits.
func.func @groups_of_no_tensor(%x: tensor<?x16xbf16> {mla.input = "x"}, %n: !mla.batch) -> (tensor<?x4x4xbf16> {mla.output = "y"}) {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x16xbf16>
  // expected-error@+1 {{expected dimensions below 3 in groups, got 4294967296}}
  %y = tensor.expand_shape %x [[4294967296], [1, 2]] output_shape [%rows, 4, 4] : tensor<?x16xbf16> into tensor<?x4x4xbf16>
  return %y : tensor<?x4x4xbf16>
}

// -----

func.func @merged_groups_of_no_tensor(%x: tensor<?x4x4xbf16> {mla.input = "x"}, %n: !mla.batch) -> (tensor<?x16xbf16> {mla.output = "y"}) {
  // expected-error@+1 {{expected dimensions below 3 in groups, got 4294967298}}
  %y = tensor.collapse_shape %x [[0], [1, 4294967298]] : tensor<?x4x4xbf16> into tensor<?x16xbf16>
  return %y : tensor<?x16xbf16>
}

// -----

func.func @dim_behind_the_last(%x: tensor<?x8xbf16> {mla.input = "x"}, %n: !mla.batch) {
  %c2 = arith.constant 2 : index
  // expected-error@+1 {{expected a dimension below 2, got 2}}
  %rows = tensor.dim %x, %c2 : tensor<?x8xbf16>
  %more = arith.addi %rows, %rows : index
  return
}

// -----

func.func @dim_of_a_dim(%x: tensor<?x8xbf16> {mla.input = "x"}, %batch: !mla.batch) {
  %n = mla.batch_dim %batch "num_requests" : <query_len = ?>
  // expected-error@+1 {{expected a constant dimension in a step function}}
  %rows = tensor.dim %x, %n : tensor<?x8xbf16>
  %more = arith.addi %rows, %rows : index
  return
}

// -----

// Matrices that lie apart are one to a projection alone.
func.func @apart(%a: tensor<64x128xbf16> {mla.weight = "a"}, %b: tensor<64x128xbf16> {mla.weight = "b"}, %x: tensor<?x128xbf16> {mla.input = "x"})
    -> (tensor<?x64xbf16> {mla.output = "output"}) {
  %w = tensor.concat dim(0) %a, %b : (tensor<64x128xbf16>, tensor<64x128xbf16>) -> tensor<128x128xbf16>
  // expected-error@+1 {{cannot read what tensor.concat makes: expected an mla.project, not one in mla.sum_parts, that has such a weight}}
  %half = tensor.extract_slice %w[0, 0] [64, 128] [1, 1] : tensor<128x128xbf16> to tensor<64x128xbf16>
  %y = mla.project %x, %half : tensor<?x128xbf16>, tensor<64x128xbf16> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// -----

func.func @beside(%a: tensor<64x64xbf16> {mla.weight = "a"}, %b: tensor<64x64xbf16> {mla.weight = "b"}, %x: tensor<?x128xbf16> {mla.input = "x"})
    -> (tensor<?x64xbf16> {mla.output = "output"}) {
  // expected-error@+1 {{expected weights one below the other, got dimension 1}}
  %w = tensor.concat dim(1) %a, %b : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x128xbf16>
  %y = mla.project %x, %w : tensor<?x128xbf16>, tensor<64x128xbf16> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// -----

func.func @bias(%a: tensor<64x128xbf16> {mla.weight = "a"}, %b: tensor<64x128xbf16> {mla.weight = "b"}, %c: tensor<128xbf16> {mla.weight = "c"}, %x: tensor<?x128xbf16> {mla.input = "x"})
    -> (tensor<?x128xbf16> {mla.output = "output"}) {
  %w = tensor.concat dim(0) %a, %b : (tensor<64x128xbf16>, tensor<64x128xbf16>) -> tensor<128x128xbf16>
  // expected-error@+1 {{expected the bias to be of the same parts as the weight of several}}
  %y = mla.project %x, %w bias(%c : tensor<128xbf16>) : tensor<?x128xbf16>, tensor<128x128xbf16> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// -----

func.func @plain_weight(%a: tensor<64xbf16> {mla.weight = "a"}, %w: tensor<128x128xbf16> {mla.weight = "w"}, %x: tensor<?x128xbf16> {mla.input = "x"})
    -> (tensor<?x128xbf16> {mla.output = "output"}) {
  %b = tensor.concat dim(0) %a, %a : (tensor<64xbf16>, tensor<64xbf16>) -> tensor<128xbf16>
  // expected-error@+1 {{cannot read what tensor.concat makes}}
  %y = mla.project %x, %w bias(%b : tensor<128xbf16>) : tensor<?x128xbf16>, tensor<128x128xbf16> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// -----

func.func @in_parts(%a: tensor<64x128xbf16> {mla.weight = "a"}, %x: tensor<?x128xbf16> {mla.input = "x"})
    -> (tensor<?x128xbf16> {mla.output = "output"}) {
  %w = tensor.concat dim(0) %a, %a : (tensor<64x128xbf16>, tensor<64x128xbf16>) -> tensor<128x128xbf16>
  %y = mla.sum_parts 2 -> tensor<?x128xbf16> {
    // expected-error@+1 {{cannot read what tensor.concat makes}}
    %0 = mla.project %x, %w : tensor<?x128xbf16>, tensor<128x128xbf16> -> tensor<?x128xbf16>
    mla.yield %0 : tensor<?x128xbf16>
  }
  return %y : tensor<?x128xbf16>
}

// -----

func.func @wide_heads(%q: tensor<?x8x160xbf16> {mla.input = "q"}, %k: tensor<?x2x160xbf16> {mla.input = "k"}, %v: tensor<?x2x32xbf16> {mla.input = "v"}, %g: tensor<160xbf16> {mla.weight = "g"},
    %t: tensor<128x160xf32> {mla.input = "table"}, %batch: !mla.batch, %cache: !mla.cache<page_size = 16, fields = [key: 2x160, value: 2x32], element = bf16, format = "kv_nhd">)
    -> (tensor<?x8x160xbf16> {mla.output = "rotated"}, !mla.cache<page_size = 16, fields = [key: 2x160, value: 2x32], element = bf16, format = "kv_nhd">) {
  // expected-error @+1 {{expected heads whose channels a program of this target holds, got 160 channels of which 160 are rotated}}
  %rotated, %0 = mla.grouped_append %q, %k, %v norms %g, %g epsilon 1.0e-6 rope %t with <order = half, dim = 160, theta = 1.0e4, length = 128> offset 0 into %cache, %batch
      : tensor<?x8x160xbf16>, tensor<?x2x160xbf16>, tensor<?x2x32xbf16> norms tensor<160xbf16>, tensor<160xbf16> rope tensor<128x160xf32>
      into <page_size = 16, fields = [key: 2x160, value: 2x32], element = bf16, format = "kv_nhd">, <query_len = ?>
  return %rotated, %0 : tensor<?x8x160xbf16>, !mla.cache<page_size = 16, fields = [key: 2x160, value: 2x32], element = bf16, format = "kv_nhd">
}

// -----

func.func @gammas_apart(%q: tensor<?x8x64xbf16> {mla.input = "q"}, %k: tensor<?x2x64xbf16> {mla.input = "k"}, %v: tensor<?x2x32xbf16> {mla.input = "v"}, %w: tensor<128xbf16> {mla.weight = "g"},
    %t: tensor<128x64xf32> {mla.input = "table"}, %batch: !mla.batch, %cache: !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">)
    -> (tensor<?x8x64xbf16> {mla.output = "rotated"}, !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">) {
  %g = tensor.extract_slice %w[0] [64] [2] : tensor<128xbf16> to tensor<64xbf16>
  // expected-error @+1 {{expected gammas that are dense, got elements 2 apart}}
  %rotated, %0 = mla.grouped_append %q, %k, %v norms %g, %g epsilon 1.0e-6 rope %t with <order = half, dim = 64, theta = 1.0e4, length = 128> offset 0 into %cache, %batch
      : tensor<?x8x64xbf16>, tensor<?x2x64xbf16>, tensor<?x2x32xbf16> norms tensor<64xbf16>, tensor<64xbf16> rope tensor<128x64xf32>
      into <page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">, <query_len = ?>
  return %rotated, %0 : tensor<?x8x64xbf16>, !mla.cache<page_size = 16, fields = [key: 2x64, value: 2x32], element = bf16, format = "kv_nhd">
}

// -----

func.func @mark_selected_stride(%s: tensor<?x48xi32> {mla.input = "selected"}, %q: tensor<?x16x64xbf16> {mla.input = "q"}, %batch: !mla.batch)
    -> (tensor<?x16x64xbf16> {mla.output = "output"}) {
  %n = mla.batch_dim %batch "num_tokens" : <query_len = ?>
  %half = tensor.extract_slice %s[0, 0] [%n, 24] [1, 2] : tensor<?x48xi32> to tensor<?x24xi32>
  // expected-error @+1 {{expected positions that are neighbours in memory, got a stride of 2}}
  %marks = mla.mark_selected %half over %batch : tensor<?x24xi32>, !mla.batch -> tensor<?x?xi32>
  %o = mla.expanded_attention query(%q : tensor<?x16x64xbf16>) keys(%q : tensor<?x16x64xbf16>)
      values(%q : tensor<?x16x64xbf16>) over %batch : !mla.batch marks(%marks : tensor<?x?xi32>) scale 0.25
      -> tensor<?x16x64xbf16>
  return %o : tensor<?x16x64xbf16>
}
