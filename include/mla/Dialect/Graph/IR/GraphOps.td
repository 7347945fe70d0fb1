//===- GraphOps.td - the graph dialect -*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_GRAPH_IR_GRAPHOPS_TD
#define MLA_DIALECT_GRAPH_IR_GRAPHOPS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/OpBase.td"

def Graph_Dialect : Dialect {
  let name = "graph";
  let cppNamespace = "::mlir::graph";
  let summary = "What a framework recorded: a model's graph, node by node";
  let description = [{
    The graph of a torch.export archive as it stands in the file, before anything is
    understood: one operation for every node, whatever it is. A graph is a `func.func` whose
    arguments are named by what they are:

    ```mlir
    func.func @forward(
        %w: tensor<48x64xf32> {graph.weight = "attn.q_a_proj.weight"},
        %f: tensor<4xf32> {graph.weight = "rotary.inv_freq", graph.values = dense<...>},
        %hidden: tensor<1x?x64xf32> {graph.input = "hidden_states"})
        -> tensor<1x?x64xf32> {
      %linear = graph.node "aten.linear.default"(%hidden, %w)
          {input = #graph.in<0>, weight = #graph.in<1>} called "linear" in "attn.q_a_proj" : ...
    ```

    Sizes that the export left open are `?`; the numbers that stand for them are of type
    index. `mla-raise-graph` reads it. A function with `graph.functional` is one that torch
    verified to write to nothing, also by operators of other libraries, whose names do not say.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasRegionArgAttrVerify = 1;
  let hasOperationAttrVerify = 1;
}

def Graph_InAttr : AttrDef<Graph_Dialect, "In"> {
  let mnemonic = "in";
  let summary = "an operand of a node, by its number, among the node's arguments";
  let parameters = (ins "int64_t":$index);
  let assemblyFormat = "`<` $index `>`";
}

def Graph_NodeOp : Op<Graph_Dialect, "node", [
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "a node of a recorded graph";
  let description = [{
    Calls the operator `target` (without `torch.ops.`). `arguments` are those of the
    operator's schema by name: numbers, texts, lists, and `#graph.in<i>` for operand i.
    What is left out has the schema's default. `called` is the node's name in the archive,
    `in` the module that it stands in, by its path, and its class.

    A node may write to its operands (`aten.copy_`): order counts.

    (C1) Every `#graph.in` is the number of an operand.

    Example:
    ```mlir
    %slice = graph.node "aten.slice.Tensor"(%x) {self = #graph.in<0>, dim = 3, start = 0, end = 16}
        called "slice_7" in "attn" : (tensor<1x4x40x24xf32>) -> tensor<1x4x40x16xf32>
    ```
  }];
  let arguments = (ins StrAttr:$target, Variadic<AnyType>:$operands, DictionaryAttr:$arguments,
                       StrAttr:$node_name, OptionalAttr<StrAttr>:$module_path);
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = [{
    $target `(` $operands `)` $arguments `called` $node_name (`in` $module_path^)?
    attr-dict `:` functional-type($operands, $results)
  }];
  let hasVerifier = 1;
}

#endif // MLA_DIALECT_GRAPH_IR_GRAPHOPS_TD
