// RUN: mla-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{expected bf16, f16 or f8E4M3FN elements in a swizzle128 tile, got 'f32'}}
func.func private @smem_element(!sm90.smem<64x64xf32>)

// -----

// expected-error @+1 {{expected the rows of a swizzle128 tile to be a multiple of 8, got 60}}
func.func private @smem_rows(!sm90.smem<60x64xbf16>)

// -----

// expected-error @+1 {{expected a shared tile of two positive dimensions, got [64]}}
func.func private @smem_rank(!sm90.smem<64xbf16>)

// -----

// expected-error @+1 {{expected a positive column_split, got 0}}
#fragment = #sm90.fragment<column_split = 0>

// -----

// expected-error @+1 {{expected a fragment of 64 rows, got shape [32, 64]}}
func.func private @fragment_rows(tensor<32x64xf32, #sm90.fragment<column_split = 1>>)

// -----

// expected-error @+1 {{expected the columns of a fragment split over 2 warpgroups to be a multiple of 16, got 264}}
func.func private @fragment_columns(tensor<64x264xf32, #sm90.fragment<column_split = 2>>)

// -----

// expected-error @+1 {{expected a row vector of 64 elements, got shape [32]}}
func.func private @rows(tensor<32xf32, #sm90.rows>)

// -----

// expected-error @+1 {{expected argument 0 to be memref<?xT>, index or f32, got 'i32'}}
sm90.kernel @kernel_argument(%a: i32) attributes {warpgroups = 1 : i32} {
  sm90.return
}

// -----

// expected-error @+1 {{expected 1 to 8 warpgroups, got 9}}
sm90.kernel @kernel_warpgroups() attributes {warpgroups = 9 : i32} {
  sm90.return
}

// -----

sm90.kernel @kernel_split() attributes {warpgroups = 1 : i32} {
  // expected-error @+1 {{expected a column_split of at most the kernel's 1 warpgroups, got 2}}
  %a = sm90.iota 1 : tensor<64x64xi32, #sm90.fragment<column_split = 2>>
  sm90.return
}

// -----

sm90.kernel @alloc_offset() attributes {warpgroups = 1 : i32} {
  // expected-error @+1 {{expected an offset that is a multiple of 1024, got 512}}
  %a = sm90.alloc offset 512 : !sm90.smem<64x64xbf16>
  sm90.return
}

// -----

sm90.kernel @slice_column() attributes {warpgroups = 1 : i32} {
  %a = sm90.alloc : !sm90.smem<64x128xbf16>
  // expected-error @+1 {{expected a first column that is a multiple of 64, got 32}}
  %b = sm90.slice %a[32] : !sm90.smem<64x128xbf16> -> !sm90.smem<64x64xbf16>
  sm90.return
}

// -----

sm90.kernel @slice_bound() attributes {warpgroups = 1 : i32} {
  %a = sm90.alloc : !sm90.smem<64x128xbf16>
  // expected-error @+1 {{expected columns within the source's 128, got 64 to 144}}
  %b = sm90.slice %a[64] : !sm90.smem<64x128xbf16> -> !sm90.smem<64x80xbf16>
  sm90.return
}

// -----

sm90.kernel @slice_rows() attributes {warpgroups = 1 : i32} {
  %a = sm90.alloc : !sm90.smem<64x128xbf16>
  // expected-error @+1 {{expected swizzle128 tiles of the same rows and width of elements}}
  %b = sm90.slice %a[64] : !sm90.smem<64x128xbf16> -> !sm90.smem<32x64xbf16>
  sm90.return
}

// -----

func.func @copy_element(%x: memref<?x64xf16>, %s: !sm90.smem<64x64xbf16>, %i: index) {
  // expected-error @+1 {{expected the tile's element type to be the view's, 'f16', got 'bf16'}}
  sm90.copy %x[%i, %i] to %s vector_bytes 2 : memref<?x64xf16>, !sm90.smem<64x64xbf16>
  return
}

// -----

func.func @copy_vector(%x: memref<?x64xbf16>, %s: !sm90.smem<64x64xbf16>, %i: index) {
  // expected-error @+1 {{expected vector_bytes 4, 8, 16 or the element's 2, got 32}}
  sm90.copy %x[%i, %i] to %s vector_bytes 32 : memref<?x64xbf16>, !sm90.smem<64x64xbf16>
  return
}

// -----

func.func @copy_stride(%x: memref<?x64xbf16, strided<[128, 2]>>, %s: !sm90.smem<64x64xbf16>, %i: index) {
  // expected-error @+1 {{expects column stride 1}}
  sm90.copy %x[%i, %i] to %s vector_bytes 4 : memref<?x64xbf16, strided<[128, 2]>>, !sm90.smem<64x64xbf16>
  return
}

// -----

func.func @copy_paged_page_size(%x: memref<?x?x64xbf16>, %t: memref<?xi32>, %s: !sm90.smem<64x64xbf16>, %i: index) {
  // expected-error @+1 {{expected a static page size (pool dimension 1)}}
  sm90.copy_paged %x[%t at %i, %i] limit %i to %s vector_bytes 2 : memref<?x?x64xbf16>, memref<?xi32>, !sm90.smem<64x64xbf16>
  return
}

// -----

func.func @store_shared_shape(%v: tensor<64x32xbf16, #sm90.fragment<column_split = 1>>, %s: !sm90.smem<64x64xbf16>) {
  // expected-error @+1 {{expected a swizzle128 target [64, 32] of 'bf16', got '!sm90.smem<64x64xbf16>'}}
  sm90.store_shared %v, %s : tensor<64x32xbf16, #sm90.fragment<column_split = 1>>, !sm90.smem<64x64xbf16>
  return
}

// -----

func.func @wgmma_widths(%a: !sm90.smem<64x64xbf16>, %b: !sm90.smem<64x48xbf16>,
                        %c: tensor<64x64xf32, #sm90.fragment<column_split = 1>>) {
  // expected-error @+1 {{expected equal contraction widths, got lhs 64 and rhs 48}}
  %d = sm90.wgmma %a, %b, %c transpose_rhs : !sm90.smem<64x64xbf16>, !sm90.smem<64x48xbf16> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @wgmma_depth(%a: !sm90.smem<64x40xbf16>, %b: !sm90.smem<64x40xbf16>,
                       %c: tensor<64x64xf32, #sm90.fragment<column_split = 1>>) {
  // expected-error @+1 {{expected a contraction width that is a multiple of 16, got 40}}
  %d = sm90.wgmma %a, %b, %c transpose_rhs : !sm90.smem<64x40xbf16>, !sm90.smem<64x40xbf16> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @wgmma_codes(%a: !sm90.smem<64x64xf8E4M3FN>, %b: !sm90.smem<64x64xf8E4M3FN>,
                       %c: tensor<64x64xf32, #sm90.fragment<column_split = 1>>) {
  // expected-error @+1 {{expected codes in shared tiles, with 'transpose_rhs' and without 'transpose_lhs', got '!sm90.smem<64x64xf8E4M3FN>' and '!sm90.smem<64x64xf8E4M3FN>'}}
  %d = sm90.wgmma %a, %b, %c : !sm90.smem<64x64xf8E4M3FN>, !sm90.smem<64x64xf8E4M3FN> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @wgmma_depth_of_codes(%a: !sm90.smem<64x48xf8E4M3FN>, %b: !sm90.smem<64x48xf8E4M3FN>,
                                %c: tensor<64x64xf32, #sm90.fragment<column_split = 1>>) {
  // expected-error @+1 {{expected a contraction width that is a multiple of 32, got 48}}
  %d = sm90.wgmma %a, %b, %c transpose_rhs : !sm90.smem<64x48xf8E4M3FN>, !sm90.smem<64x48xf8E4M3FN> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @wgmma_columns(%a: !sm90.smem<64x64xbf16>, %b: !sm90.smem<64x512xbf16>,
                         %c: tensor<64x512xf32, #sm90.fragment<column_split = 1>>) {
  // expected-error @+1 {{expected at most 256 columns per warpgroup, got 512}}
  %d = sm90.wgmma %a, %b, %c : !sm90.smem<64x64xbf16>, !sm90.smem<64x512xbf16> -> tensor<64x512xf32, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @wgmma_panels(%a: !sm90.smem<64x64xbf16>, %b: !sm90.smem<64x320xbf16>,
                        %c: tensor<64x320xf32, #sm90.fragment<column_split = 2>>) {
  // expected-error @+1 {{expected whole panels of 64 columns per warpgroup of a split [K, N] rhs, got 160}}
  %d = sm90.wgmma %a, %b, %c : !sm90.smem<64x64xbf16>, !sm90.smem<64x320xbf16> -> tensor<64x320xf32, #sm90.fragment<column_split = 2>>
  return
}

// -----

func.func @wgmma_accumulator(%a: !sm90.smem<64x64xbf16>, %b: !sm90.smem<64x32xbf16>,
                             %c: tensor<64x64xf32, #sm90.fragment<column_split = 1>>) {
  // expected-error @+1 {{expected lhs [64, K] and an f32 accumulator [64, 32]}}
  %d = sm90.wgmma %a, %b, %c : !sm90.smem<64x64xbf16>, !sm90.smem<64x32xbf16> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @load_offsets(%x: memref<?x64xf32>, %i: index) {
  // expected-error @+1 {{expected 2 offsets, got 1}}
  %0 = sm90.load %x[%i] : memref<?x64xf32> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @load_groups(%x: memref<?x?x64xf32>, %i: index) {
  // expected-error @+1 {{expected groups of a static size (view dimension 1), got 'memref<?x?x64xf32>'}}
  %0 = sm90.load %x[%i, %i] : memref<?x?x64xf32> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @load_encoding(%x: memref<?x64xf32>, %i: index) {
  // expected-error @+1 {{tensor with a #sm90.fragment encoding}}
  %0 = sm90.load %x[%i, %i] : memref<?x64xf32> -> tensor<64x64xf32>
  return
}

// -----

func.func @load_paired(%x: memref<?x64xf32, strided<[0, 2]>>, %i: index) {
  // expected-error @+1 {{'paired' expects column stride 1}}
  %0 = sm90.load %x[%i, %i] paired : memref<?x64xf32, strided<[0, 2]>> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @reduce_scratch(%x: tensor<64x512xf32, #sm90.fragment<column_split = 2>>) {
  // expected-error @+1 {{expected a scratch of type '!sm90.smem<2x64xf32, linear>', got none}}
  %0 = sm90.reduce max %x : tensor<64x512xf32, #sm90.fragment<column_split = 2>> -> tensor<64xf32, #sm90.rows>
  return
}

// -----

func.func @reduce_element(%x: tensor<64x64xbf16, #sm90.fragment<column_split = 1>>) {
  // expected-error @+1 {{expected an f32 source and result}}
  %0 = sm90.reduce max %x : tensor<64x64xbf16, #sm90.fragment<column_split = 1>> -> tensor<64xf32, #sm90.rows>
  return
}

// -----

func.func @sum_groups_element(%x: tensor<64xi32, #sm90.rows>) {
  // expected-error @+1 {{expected rows of f32, got 'tensor<64xi32, #sm90.rows>'}}
  %0 = sm90.sum_groups %x of 2 : tensor<64xi32, #sm90.rows>
  return
}

// -----

func.func @sum_groups_size(%x: tensor<64xf32, #sm90.rows>) {
  // expected-error @+1 {{expected groups of 2, 4, 8 or 16 rows, got 32}}
  %0 = sm90.sum_groups %x of 32 : tensor<64xf32, #sm90.rows>
  return
}

// -----

func.func @sum_groups_odd(%x: tensor<64xf32, #sm90.rows>) {
  // expected-error @+1 {{expected groups of 2, 4, 8 or 16 rows, got 6}}
  %0 = sm90.sum_groups %x of 6 : tensor<64xf32, #sm90.rows>
  return
}

// -----

func.func @broadcast_element(%x: tensor<64xf32, #sm90.rows>) {
  // expected-error @+1 {{expected one element type}}
  %0 = sm90.broadcast %x : tensor<64xf32, #sm90.rows> -> tensor<64x64xbf16, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @iota_dim() {
  // expected-error @+1 {{expected an i32 tile with a dimension 1}}
  %0 = sm90.iota 1 : tensor<64xi32, #sm90.rows>
  return
}

// -----

func.func @splat_scalar(%x: f32) {
  // expected-error @+1 {{expected a scalar of type 'bf16', got 'f32'}}
  %0 = sm90.splat %x : f32 -> tensor<64x64xbf16, #sm90.fragment<column_split = 1>>
  return
}

// -----

// expected-error @+1 {{expected an element type of whole bytes, got 'i4'}}
func.func private @smem_whole_bytes(!sm90.smem<64x64xi4, linear>)

// -----

// expected-error @+1 {{expected partial rows of shape [64, 4], got shape [64, 8]}}
func.func private @partial(tensor<64x8xf32, #sm90.partial>)

// -----

// expected-error @+1 {{expected a column vector whose length is a multiple of 8, got shape [12]}}
func.func private @columns(tensor<12xf32, #sm90.columns>)

// -----

// expected-error @+1 {{expected at least one stage and one part, got 0 and 1}}
func.func private @ring_stages(!sm90.ring<stages = 0, parts = 1>)

// -----

// expected-error @+1 {{expected at least one stage and one part, got 2 and 0}}
func.func private @ring_parts(!sm90.ring<stages = 2, parts = 0>)

// -----

// expected-error @+1 {{expected bf16, f16 or f8E4M3FN elements in a tensor map, got 'f32'}}
func.func private @map_element(!sm90.tensor_map<64x64xf32>)

// -----

// expected-error @+1 {{expected a box of 1 to 256 rows and a multiple of 64 columns, or below that of 8, got 257 and 64}}
func.func private @map_rows(!sm90.tensor_map<257x64xbf16>)

// -----

// expected-error @+1 {{expected a box of 1 to 256 rows and a multiple of 64 columns, or below that of 8, got 64 and 96}}
func.func private @map_columns(!sm90.tensor_map<64x96xbf16>)

// -----

// expected-error @+1 {{expected a box of two dimensions, got 1}}
func.func private @map_rank(!sm90.tensor_map<64xbf16>)

// -----

// expected-error @+1 {{expected a cluster of 1, 2, 4, 8 or 16 CTAs, got 3}}
sm90.kernel @kernel_cluster() attributes {cluster = 3 : i32, warpgroups = 1 : i32} {
  sm90.return
}

// -----

sm90.kernel @kernel_role_outside() attributes {warpgroups = 1 : i32} {
  // expected-error @+1 {{expected warpgroups within the kernel's 1, got 1 to 2}}
  sm90.role "late" warpgroups 1 to 2 {
  }
  sm90.return
}

// -----

sm90.kernel @kernel_roles_overlap() attributes {warpgroups = 3 : i32} {
  sm90.role "a" warpgroups 0 to 2 {
  }
  // expected-error @+1 {{expected warpgroups of its own, but 'a' has 0 to 2}}
  sm90.role "b" warpgroups 1 to 3 {
  }
  sm90.return
}

// -----

// The register file has 1024 more, which no launch of 384 threads allocates.
// expected-error @+1 {{expected roles that share 64512 registers, got 65536}}
sm90.kernel @kernel_register_pool() attributes {warpgroups = 3 : i32} {
  sm90.role "a" warpgroups 0 to 1 registers 176 {
  }
  sm90.role "b" warpgroups 1 to 3 registers 168 {
  }
  sm90.return
}

// -----

// expected-error @+1 {{expected roles that share 64512 registers, got 92160}}
sm90.kernel @kernel_registers() attributes {warpgroups = 3 : i32} {
  sm90.role "a" warpgroups 0 to 3 registers 240 {
  }
  sm90.return
}

// -----

sm90.kernel @kernel_role_split() attributes {warpgroups = 2 : i32} {
  sm90.role "a" warpgroups 0 to 1 {
    // expected-error @+1 {{expected a column_split of at most the role's 1 warpgroups, got 2}}
    %a = sm90.iota 1 : tensor<64x64xi32, #sm90.fragment<column_split = 2>>
  }
  sm90.return
}

// -----

func.func @copy_rank(%x: memref<?xbf16>, %s: !sm90.smem<64x64xbf16>, %i: index) {
  // expected-error @+1 {{expected a view of rank 2, got rank 1}}
  sm90.copy %x[%i, %i] to %s vector_bytes 2 : memref<?xbf16>, !sm90.smem<64x64xbf16>
  return
}

// -----

func.func @has_gap_block(%l: memref<?xi32>, %i: index, %n: i32) {
  // expected-error @+1 {{expected a block of a positive multiple of 32 entries, got 48}}
  %0 = sm90.has_gap %l[%i for 48] below %n : memref<?xi32>
  return
}

// -----

func.func @copy_rows_element(%x: memref<?x64xf16>, %l: memref<?xi32>, %s: !sm90.smem<64x64xbf16>, %i: index) {
  // expected-error @+1 {{expected the tile's element type to be the view's, 'f16', got 'bf16'}}
  sm90.copy_rows %x[%l at %i, %i] to %s vector_bytes 2 : memref<?x64xf16>, memref<?xi32>, !sm90.smem<64x64xbf16>
  return
}

// -----

func.func @store_shared_rows(%v: tensor<64xf32, #sm90.rows>, %s: !sm90.smem<1x128xf32, linear>) {
  // expected-error @+1 {{expected a target of type '!sm90.smem<1x64xf32, linear>', got '!sm90.smem<1x128xf32, linear>'}}
  sm90.store_shared %v, %s : tensor<64xf32, #sm90.rows>, !sm90.smem<1x128xf32, linear>
  return
}

// -----

func.func @load_shared_row_column(%s: !sm90.smem<64x4xf32, linear>) {
  // expected-error @+1 {{expected a column of the source's 4, got 4}}
  %0 = sm90.load_shared %s column 4 : !sm90.smem<64x4xf32, linear> -> tensor<64xf32, #sm90.rows>
  return
}

// -----

func.func @load_shared_row_shape(%s: !sm90.smem<32x4xf32, linear>) {
  // expected-error @+1 {{expected a source of type '!sm90.smem<64x4xf32, linear>', got '!sm90.smem<32x4xf32, linear>'}}
  %0 = sm90.load_shared %s column 1 : !sm90.smem<32x4xf32, linear> -> tensor<64xf32, #sm90.rows>
  return
}

// -----

func.func @store_shared_columns(%v: tensor<40xf32, #sm90.columns>, %s: !sm90.smem<1x64xf32, linear>) {
  // expected-error @+1 {{expected a target of type '!sm90.smem<1x40xf32, linear>', got '!sm90.smem<1x64xf32, linear>'}}
  sm90.store_shared %v, %s : tensor<40xf32, #sm90.columns>, !sm90.smem<1x64xf32, linear>
  return
}

// -----

sm90.kernel @store_shared_columns_split(%y: memref<?xf32>) attributes {warpgroups = 2 : i32} {
  %c0 = arith.constant 0 : index
  %s = sm90.alloc : !sm90.smem<1x64xf32, linear>
  %v = sm90.load %y[%c0] : memref<?xf32> -> tensor<64xf32, #sm90.columns>
  // expected-error @+1 {{expected one warpgroup to store columns, got 2}}
  sm90.store_shared %v, %s : tensor<64xf32, #sm90.columns>, !sm90.smem<1x64xf32, linear>
  sm90.return
}

// -----

func.func @store_shared_rows_transposed(%v: tensor<64xf32, #sm90.rows>, %s: !sm90.smem<1x64xf32, linear>) {
  // expected-error @+1 {{'transposed' expects a fragment, got 'tensor<64xf32, #sm90.rows>'}}
  sm90.store_shared %v, %s transposed : tensor<64xf32, #sm90.rows>, !sm90.smem<1x64xf32, linear>
  return
}

// -----

func.func @store_shared_transposed_shape(%v: tensor<64x32xbf16, #sm90.fragment<column_split = 1>>, %s: !sm90.smem<64x32xbf16>) {
  // expected-error @+1 {{expected a swizzle128 target [32, 64] of 'bf16', got '!sm90.smem<64x32xbf16>'}}
  sm90.store_shared %v, %s transposed : tensor<64x32xbf16, #sm90.fragment<column_split = 1>>, !sm90.smem<64x32xbf16>
  return
}

// -----

func.func @store_shared_transposed_split(%v: tensor<64x64xbf16, #sm90.fragment<column_split = 2>>, %s: !sm90.smem<64x64xbf16>) {
  // expected-error @+1 {{'transposed' expects a column_split of 1, got 2}}
  sm90.store_shared %v, %s transposed : tensor<64x64xbf16, #sm90.fragment<column_split = 2>>, !sm90.smem<64x64xbf16>
  return
}

// -----

func.func @wgmma_element(%a: !sm90.smem<64x64xbf16>, %b: !sm90.smem<64x64xf16>,
                         %c: tensor<64x64xf32, #sm90.fragment<column_split = 1>>) {
  // expected-error @+1 {{expected swizzle128 tiles of one element type}}
  %d = sm90.wgmma %a, %b, %c : !sm90.smem<64x64xbf16>, !sm90.smem<64x64xf16> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @wgmma_transpose_lhs(%a: !sm90.smem<64x32xbf16>, %b: !sm90.smem<64x64xbf16>,
                               %c: tensor<64x64xf32, #sm90.fragment<column_split = 1>>) {
  // expected-error @+1 {{expected lhs [K, 64] and an f32 accumulator [64, 64]}}
  %d = sm90.wgmma %a, %b, %c transpose_lhs : !sm90.smem<64x32xbf16>, !sm90.smem<64x64xbf16> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @wgmma_fragment_transposed(%a: tensor<64x64xbf16, #sm90.fragment<column_split = 1>>, %b: !sm90.smem<64x64xbf16>,
                                     %c: tensor<64x64xf32, #sm90.fragment<column_split = 1>>) {
  // expected-error @+1 {{expected a fragment lhs with column_split 1 and no 'transpose_lhs'}}
  %d = sm90.wgmma %a, %b, %c transpose_lhs : tensor<64x64xbf16, #sm90.fragment<column_split = 1>>, !sm90.smem<64x64xbf16> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @wgmma_fragment_split(%a: tensor<64x64xbf16, #sm90.fragment<column_split = 2>>, %b: !sm90.smem<64x64xbf16>,
                                %c: tensor<64x64xf32, #sm90.fragment<column_split = 1>>) {
  // expected-error @+1 {{expected a fragment lhs with column_split 1 and no 'transpose_lhs'}}
  %d = sm90.wgmma %a, %b, %c : tensor<64x64xbf16, #sm90.fragment<column_split = 2>>, !sm90.smem<64x64xbf16> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @load_rank(%x: memref<?xf32>, %i: index) {
  // expected-error @+1 {{expected a view of rank 2, got rank 1}}
  %0 = sm90.load %x[%i, %i] : memref<?xf32> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @load_rows_paired(%x: memref<?x64xf32, strided<[128, 2]>>, %l: memref<?xi32>, %i: index) {
  // expected-error @+1 {{'paired' expects column stride 1}}
  %0 = sm90.load_rows %x[%l at %i, %i] paired : memref<?x64xf32, strided<[128, 2]>>, memref<?xi32> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @load_paged_rank(%x: memref<?x64xf32>, %t: memref<?xi32>, %i: index) {
  // expected-error @+1 {{expected a pool of rank 3, got rank 2}}
  %0 = sm90.load_paged %x[%t at %i, %i] limit %i : memref<?x64xf32>, memref<?xi32> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @store_slots_page_size(%v: tensor<64x64xf32, #sm90.fragment<column_split = 1>>, %x: memref<?x?x64xf32>, %l: memref<?xi64>, %i: index) {
  // expected-error @+1 {{expected a static page size (pool dimension 1)}}
  sm90.store_slots %v, %x[%l at %i, %i] : tensor<64x64xf32, #sm90.fragment<column_split = 1>>, memref<?x?x64xf32>, memref<?xi64>
  return
}

// -----

func.func @store_transposed_paired(%v: tensor<64x64xf32, #sm90.fragment<column_split = 1>>, %x: memref<?x64xf32>, %i: index) {
  // expected-error @+1 {{'transposed' expects a tile of rank 2 that is not 'paired'}}
  sm90.store %v, %x[%i, %i] paired transposed : tensor<64x64xf32, #sm90.fragment<column_split = 1>>, memref<?x64xf32>
  return
}

// -----

func.func @store_transposed_rank(%v: tensor<64xf32, #sm90.rows>, %x: memref<?xf32>, %i: index) {
  // expected-error @+1 {{'transposed' expects a tile of rank 2 that is not 'paired'}}
  sm90.store %v, %x[%i] transposed : tensor<64xf32, #sm90.rows>, memref<?xf32>
  return
}

// -----

func.func @store_partial(%v: tensor<64x4xf32, #sm90.partial>, %x: memref<?x4xf32>, %i: index) {
  // expected-error @+1 {{expected a reduced value, got 'tensor<64x4xf32, #sm90.partial>'}}
  sm90.store %v, %x[%i, %i] : tensor<64x4xf32, #sm90.partial>, memref<?x4xf32>
  return
}

// -----

func.func @reduce_dim(%x: tensor<64x64xf32, #sm90.fragment<column_split = 1>>) {
  // expected-error @+1 {{expected an f32 source and result of dimension 0}}
  %0 = sm90.reduce max %x dim 0 : tensor<64x64xf32, #sm90.fragment<column_split = 1>> -> tensor<64xf32, #sm90.rows>
  return
}

// -----

func.func @reduce_columns_dim(%x: tensor<64x64xf32, #sm90.fragment<column_split = 1>>) {
  // expected-error @+1 {{expected an f32 source and result of dimension 1}}
  %0 = sm90.reduce max %x : tensor<64x64xf32, #sm90.fragment<column_split = 1>> -> tensor<64xf32, #sm90.columns>
  return
}

// -----

func.func @reduce_partial(%x: tensor<64x4xf32, #sm90.partial>) {
  // expected-error @+1 {{expected an f32 source and result of dimension 1}}
  %0 = sm90.reduce sum %x : tensor<64x4xf32, #sm90.partial> -> tensor<64x4xf32, #sm90.partial>
  return
}

// -----

func.func @reduce_partial_split(%x: tensor<64x64xf32, #sm90.fragment<column_split = 2>>) {
  // expected-error @+1 {{expected a source with column_split 1}}
  %0 = sm90.reduce sum %x : tensor<64x64xf32, #sm90.fragment<column_split = 2>> -> tensor<64x4xf32, #sm90.partial>
  return
}

// -----

func.func @reduce_columns_scratch(%x: tensor<64x32xf32, #sm90.fragment<column_split = 1>>, %s: !sm90.smem<2x32xf32, linear>) {
  // expected-error @+1 {{expected a scratch of type '!sm90.smem<4x32xf32, linear>', got '!sm90.smem<2x32xf32, linear>'}}
  %0 = sm90.reduce sum %x dim 0 scratch %s : !sm90.smem<2x32xf32, linear> : tensor<64x32xf32, #sm90.fragment<column_split = 1>> -> tensor<32xf32, #sm90.columns>
  return
}

// -----

func.func @reduce_no_scratch(%x: tensor<64x64xf32, #sm90.fragment<column_split = 1>>, %s: !sm90.smem<2x64xf32, linear>) {
  // expected-error @+1 {{expected no scratch for a source that is not split}}
  %0 = sm90.reduce sum %x scratch %s : !sm90.smem<2x64xf32, linear> : tensor<64x64xf32, #sm90.fragment<column_split = 1>> -> tensor<64xf32, #sm90.rows>
  return
}

// -----

sm90.kernel @reduce_columns_warpgroups() attributes {warpgroups = 2 : i32} {
  %x = arith.constant dense<0.0> : tensor<64x32xf32, #sm90.fragment<column_split = 1>>
  %s = sm90.alloc : !sm90.smem<4x32xf32, linear>
  // expected-error @+1 {{expected one warpgroup to reduce columns, got 2}}
  %0 = sm90.reduce sum %x dim 0 scratch %s : !sm90.smem<4x32xf32, linear> : tensor<64x32xf32, #sm90.fragment<column_split = 1>> -> tensor<32xf32, #sm90.columns>
  sm90.return
}

// -----

func.func @broadcast_columns(%x: tensor<32xf32, #sm90.columns>) {
  // expected-error @+1 {{expected a column vector to fill a fragment of as many columns}}
  %0 = sm90.broadcast %x : tensor<32xf32, #sm90.columns> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @broadcast_columns_split(%x: tensor<64xf32, #sm90.columns>) {
  // expected-error @+1 {{expected a column vector to fill a fragment of as many columns}}
  %0 = sm90.broadcast %x : tensor<64xf32, #sm90.columns> -> tensor<64x64xf32, #sm90.fragment<column_split = 2>>
  return
}

// -----

func.func @take_columns_c1(%x: tensor<64x128xf32, #sm90.fragment<column_split = 1>>) {
  // expected-error @+1 {{expected one element type, got}}
  %0 = sm90.take_columns %x[0] : tensor<64x128xf32, #sm90.fragment<column_split = 1>> -> tensor<64x64xbf16, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @take_columns_c2(%x: tensor<64x128xf32, #sm90.fragment<column_split = 2>>) {
  // expected-error @+1 {{expected fragments with column_split 1, got}}
  %0 = sm90.take_columns %x[0] : tensor<64x128xf32, #sm90.fragment<column_split = 2>> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @take_columns_c3(%x: tensor<64x128xf32, #sm90.fragment<column_split = 1>>) {
  // expected-error @+1 {{expected 64 of 128 columns from a multiple of 8 on, got 4}}
  %0 = sm90.take_columns %x[4] : tensor<64x128xf32, #sm90.fragment<column_split = 1>> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @take_columns_c3_behind(%x: tensor<64x128xf32, #sm90.fragment<column_split = 1>>) {
  // expected-error @+1 {{expected 64 of 128 columns from a multiple of 8 on, got 72}}
  %0 = sm90.take_columns %x[72] : tensor<64x128xf32, #sm90.fragment<column_split = 1>> -> tensor<64x64xf32, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @test_bits_type(%w: tensor<64xi32, #sm90.rows>) {
  // expected-error @+1 {{expected a fragment of i1 with column_split 1 and 32 columns for each of 1 words, got 'tensor<64x32xi8, #sm90.fragment<column_split = 1>>'}}
  %0 = sm90.test_bits %w : tensor<64xi32, #sm90.rows> -> tensor<64x32xi8, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @test_bits_split(%w: tensor<64xi32, #sm90.rows>) {
  // expected-error @+1 {{expected a fragment of i1 with column_split 1 and 32 columns for each of 1 words, got 'tensor<64x32xi1, #sm90.fragment<column_split = 2>>'}}
  %0 = sm90.test_bits %w : tensor<64xi32, #sm90.rows> -> tensor<64x32xi1, #sm90.fragment<column_split = 2>>
  return
}

// -----

func.func @test_bits_columns(%w: tensor<64xi32, #sm90.rows>) {
  // expected-error @+1 {{expected a fragment of i1 with column_split 1 and 32 columns for each of 1 words, got 'tensor<64x64xi1, #sm90.fragment<column_split = 1>>'}}
  %0 = sm90.test_bits %w : tensor<64xi32, #sm90.rows> -> tensor<64x64xi1, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @test_bits_words(%w: tensor<64xf32, #sm90.rows>) {
  // expected-error @+1 {{expected rows of i32, got 'tensor<64xf32, #sm90.rows>'}}
  %0 = sm90.test_bits %w : tensor<64xf32, #sm90.rows> -> tensor<64x32xi1, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @iota_element() {
  // expected-error @+1 {{expected an i32 tile with a dimension 0}}
  %0 = sm90.iota 0 : tensor<64xf32, #sm90.rows>
  return
}

// -----

func.func @load_elements_c1_rank(%x: memref<?xi32>, %i: tensor<64xi32, #sm90.rows>) {
  // expected-error @+1 {{expected a view of rank 2, got rank 1}}
  %0 = sm90.load_elements %x[%i, %i] : memref<?xi32>, tensor<64xi32, #sm90.rows>, tensor<64xi32, #sm90.rows> -> tensor<64xi32, #sm90.rows>
  return
}

// -----

func.func @load_elements_c1_type(%x: memref<?xi32>, %i: tensor<64xi32, #sm90.rows>) {
  // expected-error @+1 {{expected indices of type 'tensor<64x32xi32, #sm90.fragment<column_split = 1>>', got 'tensor<64xi32, #sm90.rows>'}}
  %0 = sm90.load_elements %x[%i] : memref<?xi32>, tensor<64xi32, #sm90.rows> -> tensor<64x32xi32, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @load_elements_c2(%x: memref<?xf32>, %i: tensor<64xi32, #sm90.rows>) {
  // expected-error @+1 {{element type}}
  %0 = sm90.load_elements %x[%i] : memref<?xf32>, tensor<64xi32, #sm90.rows> -> tensor<64xi32, #sm90.rows>
  return
}

// -----

// expected-error@+1 {{expected shared_bytes from 0 to 232448, got -1}}
sm90.kernel @shared_bytes() attributes {warpgroups = 1 : i32, shared_bytes = 18446744073709551615 : i64} {
  sm90.return
}

// -----

// expected-error@+1 {{expected sm90.column_run to be 2, 4 or 8, got 1000 : i64}}
sm90.kernel @column_run() attributes {warpgroups = 1 : i32, sm90.column_run = 1000 : i64} {
  sm90.return
}

// -----

// Codes of 8 bits: 128 columns are a panel, and only TMA brings them.
func.func @slice_of_codes(%s: !sm90.smem<64x256xf8E4M3FN>) {
  // expected-error @+1 {{expected a first column that is a multiple of 128, got 64}}
  %0 = sm90.slice %s[64] : !sm90.smem<64x256xf8E4M3FN> -> !sm90.smem<64x128xf8E4M3FN>
  return
}

// -----

// TMA copies in units of 16 bytes.
// expected-error @+1 {{expected a box of 1 to 256 rows and a multiple of 128 columns, or below that of 16, got 64 and 72}}
func.func private @narrow_box_of_codes() -> !sm90.tensor_map<64x72xf8E4M3FN>

// -----

func.func @store_codes(%v: tensor<64x128xf8E4M3FN, #sm90.fragment<column_split = 1>>, %s: !sm90.smem<64x128xf8E4M3FN>) {
  // expected-error @+1 {{expected elements of 16 bits in a swizzle128 target, got '!sm90.smem<64x128xf8E4M3FN>'}}
  sm90.store_shared %v, %s : tensor<64x128xf8E4M3FN, #sm90.fragment<column_split = 1>>, !sm90.smem<64x128xf8E4M3FN>
  return
}

// -----

func.func @store_shared_column(%v: tensor<64x32xbf16, #sm90.fragment<column_split = 1>>, %s: !sm90.smem<64x64xbf16>) {
  // expected-error @+1 {{expected columns from a multiple of 16 within the target's 64 and no 'transposed', got 48 of}}
  sm90.store_shared %v, %s column 48 : tensor<64x32xbf16, #sm90.fragment<column_split = 1>>, !sm90.smem<64x64xbf16>
  return
}

// -----

func.func @load_pairs_c1_stride(%x: memref<?x32xbf16, strided<[64, 1]>>, %i: index) {
  // expected-error @below {{expected a view with column stride 2, got 'memref<?x32xbf16, strided<[64, 1]>>'}}
  %0, %1 = sm90.load_pairs %x[%i, %i] : memref<?x32xbf16, strided<[64, 1]>> -> tensor<64x32xbf16, #sm90.fragment<column_split = 1>>, tensor<64x32xbf16, #sm90.fragment<column_split = 1>>
  return
}

// -----

func.func @store_pairs_c2(%x: memref<?x32xbf16, strided<[64, 2]>>, %a: tensor<64x32xbf16, #sm90.fragment<column_split = 1>>, %b: tensor<64x16xbf16, #sm90.fragment<column_split = 1>>, %i: index) {
  // expected-error @below {{expected two fragments of one type, got 'tensor<64x32xbf16, #sm90.fragment<column_split = 1>>' and 'tensor<64x16xbf16, #sm90.fragment<column_split = 1>>'}}
  sm90.store_pairs %a, %b to %x[%i, %i] : tensor<64x32xbf16, #sm90.fragment<column_split = 1>>, tensor<64x16xbf16, #sm90.fragment<column_split = 1>>, memref<?x32xbf16, strided<[64, 2]>>
  return
}

// -----

func.func @load_pairs_c1_element(%x: memref<?x32xf32, strided<[64, 2]>>, %i: index) {
  // expected-error @below {{got}}
  %0, %1 = sm90.load_pairs %x[%i, %i] : memref<?x32xf32, strided<[64, 2]>> -> tensor<64x32xbf16, #sm90.fragment<column_split = 1>>, tensor<64x32xbf16, #sm90.fragment<column_split = 1>>
  return
}
