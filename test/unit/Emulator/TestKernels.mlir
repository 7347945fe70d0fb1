// The kernels of test/unit/Runtime/TestKernelsCuda.c for the emulated driver, without
// loops and divisions, so that any argument ends: append writes the cache's first row,
// attend leaves out the sum over the cache.

llvm.func @test_scale(%from: !llvm.ptr<1>, %to: !llvm.ptr<1>, %count: i64, %factor: f32)
    attributes {mlac.threads = 8 : i64, mlac.shared_bytes = 0 : i64} {
  %tid = nvvm.read.ptx.sreg.tid.x : i32
  %column = arith.extsi %tid : i32 to i64
  %isInside = arith.cmpi slt, %column, %count : i64
  scf.if %isInside {
    %source = llvm.getelementptr %from[%column] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %value = llvm.load %source : !llvm.ptr<1> -> f32
    %scaled = arith.mulf %value, %factor : f32
    %target = llvm.getelementptr %to[%column] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    llvm.store %scaled, %target : f32, !llvm.ptr<1>
  }
  llvm.return
}

llvm.func @test_append(%hidden: !llvm.ptr<1>, %cache: !llvm.ptr<1>, %slots: !llvm.ptr<1>,
                       %scratch: !llvm.ptr<1>, %stride: i64)
    attributes {mlac.threads = 8 : i64, mlac.shared_bytes = 0 : i64} {
  %tid = nvvm.read.ptx.sreg.tid.x : i32
  %column = arith.extsi %tid : i32 to i64
  %cta = nvvm.read.ptx.sreg.ctaid.x : i32
  %token = arith.extsi %cta : i32 to i64
  %width = arith.constant 8 : i64
  %row = arith.muli %token, %width : i64
  %element = arith.addi %row, %column : i64
  %source = llvm.getelementptr %hidden[%element] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
  %value = llvm.load %source : !llvm.ptr<1> -> f32
  %place = llvm.getelementptr %slots[%token] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i64
  %slot = llvm.load %place : !llvm.ptr<1> -> i64
  %first = arith.muli %slot, %stride : i64
  %zero = arith.subi %first, %first : i64
  %at = arith.addi %zero, %column : i64
  %target = llvm.getelementptr %cache[%at] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
  llvm.store %value, %target : f32, !llvm.ptr<1>
  %kept = llvm.getelementptr %scratch[%element] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
  llvm.store %value, %kept : f32, !llvm.ptr<1>
  llvm.return
}

llvm.func @test_attend(%cache: !llvm.ptr<1>, %blocks: !llvm.ptr<1>, %starts: !llvm.ptr<1>,
                       %contexts: !llvm.ptr<1>, %twice: !llvm.ptr<1>, %scratch: !llvm.ptr<1>,
                       %output: !llvm.ptr<1>, %requests: i64, %columns: i64, %stride: i64)
    attributes {mlac.threads = 8 : i64, mlac.shared_bytes = 0 : i64} {
  %tid = nvvm.read.ptx.sreg.tid.x : i32
  %column = arith.extsi %tid : i32 to i64
  %cta = nvvm.read.ptx.sreg.ctaid.x : i32
  %token = arith.extsi %cta : i32 to i64
  %width = arith.constant 8 : i64
  %row = arith.muli %token, %width : i64
  %element = arith.addi %row, %column : i64
  %kept = llvm.getelementptr %scratch[%element] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
  %value = llvm.load %kept : !llvm.ptr<1> -> f32
  %weight = llvm.getelementptr %twice[%column] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
  %added = llvm.load %weight : !llvm.ptr<1> -> f32
  %sum = arith.addf %value, %added : f32
  %target = llvm.getelementptr %output[%element] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
  llvm.store %sum, %target : f32, !llvm.ptr<1>
  llvm.return
}

llvm.func @test_chunk(%table: !llvm.ptr<1>, %lse: !llvm.ptr<1>, %requests: i64, %chunk: i64)
    attributes {mlac.threads = 8 : i64, mlac.shared_bytes = 0 : i64} {
  %one = arith.constant 1 : i64
  %width = arith.addi %requests, %one : i64
  %row = arith.muli %chunk, %width : i64
  %last = arith.addi %row, %requests : i64
  %source = llvm.getelementptr %table[%last] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i32
  %count = llvm.load %source : !llvm.ptr<1> -> i32
  %value = arith.sitofp %count : i32 to f32
  %target = llvm.getelementptr %lse[%chunk] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
  llvm.store %value, %target : f32, !llvm.ptr<1>
  llvm.return
}
