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

func.func @quantize(%x: tensor<?x128xbf16> {mla.input = "x"}) {
  // expected-error@+1 {{has no kernels yet on any target}}
  %q, %s = mla.quantize %x group 128 rule <raw> floor 1.0e-30 : tensor<?x128xbf16> -> tensor<?x128xf8E4M3FN>, tensor<?x1xf32>
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
  // expected-error@+1 {{expected a kv_lora_rank of at most 512 on this target, got 576}}
  %o = mla.absorbed_attention query(%q : tensor<?x2x576xbf16>)
      over %cache, %batch : <page_size = 64, fields = [latent: 576], element = bf16, rope_order = half>, <query_len = ?>
      scale 0.25 -> tensor<?x2x576xbf16>
  return %o : tensor<?x2x576xbf16>
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
