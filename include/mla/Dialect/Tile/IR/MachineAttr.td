//===- MachineAttr.td - the machine that a module is scheduled for ---*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_TILE_IR_MACHINEATTR_TD
#define MLA_DIALECT_TILE_IR_MACHINEATTR_TD

include "mla/Dialect/Tile/IR/ScheduleAttrs.td"

def Tile_MachineAttr : AttrDef<Tile_Dialect, "Machine"> {
  let mnemonic = "machine";
  let summary = "whose rates and measured numbers decide on tiles and schedules";
  let description = [{
    A known machine (mla/Machine/TargetDescription.h), and the rates that differ from what is known of it.
    On a module as `tile.machine`.

    ```mlir
    #tile.machine<"h200">
    #tile.machine<"h200", num_sms = 66, read_gbps = 2300.0>
    ```
  }];
  let parameters = (ins StringRefParameter<"a known machine">:$name,
                        Tile_Count<"multiprocessors">:$num_sms,
                        Tile_Number<"of products in the activations' type">:$matmul_tflops,
                        Tile_Number<"of a read-only stream">:$read_gbps,
                        Tile_Number<"of a dependent kernel">:$launch_us);
  let assemblyFormat = "`<` $name (`,` struct($num_sms, $matmul_tflops, $read_gbps, $launch_us)^)? `>`";
  let genVerifyDecl = 1;
}

#endif // MLA_DIALECT_TILE_IR_MACHINEATTR_TD
