//===- ScheduleAttrs.td - how a kernel is to be scheduled ----*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_TILE_IR_SCHEDULEATTRS_TD
#define MLA_DIALECT_TILE_IR_SCHEDULEATTRS_TD

include "mla/Dialect/Tile/IR/TileDialect.td"
include "mlir/IR/AttrTypeBase.td"

def Tile_ScheduleInterface : AttrInterface<"ScheduleInterface"> {
  let cppNamespace = "::mlir::tile";
  let description = [{
    What a kernel carries as `tile.schedule`: which schedule, by the attribute's own name, and
    its parameters. Parameters that are left out are the schedule's to choose. Passes
    between the planner and the schedule ask this interface for what they prepare.
  }];
  let methods = [
    InterfaceMethod<"The schedule's name.", "::llvm::StringRef", "getScheduleName", (ins), [{}],
                    [{ return ConcreteAttr::getMnemonic(); }]>,
    InterfaceMethod<"Whether keys are to be on M and rows on N (`tile-swap-operands`).", "bool",
                    "swapsOperands", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<"Whether a CTA is to run several programs (`tile-loop-over-programs`).", "bool",
                    "loopsOverPrograms", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<"log2 of how far the maximum may lag behind (`tile-lazy-rescale`).",
                    "::std::optional<::mlac::Real>", "getLazyThreshold", (ins), [{}],
                    [{ return std::nullopt; }]>,
  ];
}

/// A count, and a real number, that may be left out.
class Tile_Count<string what> : OptionalParameter<"::std::optional<int64_t>", what> {
  let printer = "$_printer << *$_self";
}
class Tile_Number<string what> : OptionalParameter<"::std::optional<::mlac::Real>", what> {
  let parser = "::mlir::FieldParser<::mlac::Real>::parse($_parser)";
  let printer = "$_printer << *$_self";
}
def Tile_LazyThreshold : Tile_Number<"log2 of how far the maximum may lag behind, 0 to 15">;

/// A schedule without parameters.
class Tile_Schedule<string name, string attrMnemonic>
    : AttrDef<Tile_Dialect, name # "Schedule", [Tile_ScheduleInterface]> {
  let mnemonic = attrMnemonic;
}
/// One with parameters, which all may be left out.
class Tile_TunedSchedule<string name, string attrMnemonic>
    : Tile_Schedule<name, attrMnemonic> {
  let assemblyFormat = "(`<` struct(params)^ `>`)?";
  let genVerifyDecl = 1;
  // The one that leaves every parameter to the schedule.
  let builders = [AttrBuilder<(ins), "return $_get($_ctxt, " #
      !interleave(!foreach(i, !range(!size(parameters)), "::std::nullopt"), ", ") # ");">];
}

def Tile_SimpleSchedule : Tile_Schedule<"Simple", "simple"> {
  let summary = "one step after the other";
}

def Tile_RelaySchedule : Tile_TunedSchedule<"Relay", "relay"> {
  let summary = "scores and the values' halves on three warpgroups";
  let description = [{
    ```mlir
    #tile.relay<left_stages = 3, right_stages = 2, rope_stages = 2, early = 2, score_registers = 168,
                output_registers = 168, lazy_threshold = 8.0>
    ```
    `early` is how many panels of the scores the gate of the left half does not wait for; -1: there is
    no gate.
  }];
  let parameters = (ins Tile_Count<"blocks in the ring of the left values">:$left_stages,
                        Tile_Count<"blocks in the ring of the right values">:$right_stages,
                        Tile_Count<"blocks in the ring of rope keys">:$rope_stages,
                        Tile_Count<"panels before the gate, or -1">:$early,
                        Tile_Count<"of a thread of the scores' role">:$score_registers,
                        Tile_Count<"of a thread of a values' role">:$output_registers,
                        Tile_Count<"blocks in one turn of the scores' loop">:$steps_per_turn,
                        Tile_LazyThreshold:$lazy_threshold);
}

def Tile_StreamSchedule : Tile_TunedSchedule<"Stream", "stream"> {
  let summary = "keys on M, few rows on N, behind one producer";
  let parameters = (ins Tile_Count<"blocks in the ring">:$stages,
                        Tile_Count<"columns of keys that one barrier announces">:$part_columns,
                        Tile_LazyThreshold:$lazy_threshold);
  let extraClassDeclaration = [{ bool swapsOperands() const { return true; } }];
}

def Tile_PingPongSchedule : Tile_TunedSchedule<"PingPong", "pingpong"> {
  let summary = "two warpgroups that take turns at the tensor cores";
  let parameters = (ins Tile_Count<"keys of one block">:$key_block,
                        Tile_Count<"blocks in the rings of keys and of values">:$stages,
                        Tile_Count<"of a thread that copies">:$producer_registers,
                        Tile_Count<"of a thread that multiplies">:$consumer_registers,
                        Tile_LazyThreshold:$lazy_threshold);
  let extraClassDeclaration = [{ bool loopsOverPrograms() const { return true; } }];
}

def Tile_ProductSchedule : Tile_TunedSchedule<"Product", "product"> {
  let summary = "a matrix product out of rings";
  let parameters = (ins Tile_Count<"blocks in the rings">:$stages);
}

def Tile_ScoresSchedule : Tile_TunedSchedule<"Scores", "scores"> {
  let summary = "an indexer's keys on M, out of a ring, heads on N";
  let parameters = (ins Tile_Count<"blocks in the ring">:$stages);
}

#endif // MLA_DIALECT_TILE_IR_SCHEDULEATTRS_TD
