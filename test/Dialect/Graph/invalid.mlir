// RUN: mla-opt %s -split-input-file -verify-diagnostics

func.func @C1_no_such_operand(%x: tensor<4xf32>) {
  // expected-error @below {{(C1) has 1 operands, no operand 1}}
  graph.node "aten.neg.default"(%x) {self = #graph.in<1>} called "neg" : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @C1_in_a_list(%x: tensor<4xf32>) {
  // expected-error @below {{(C1) has 1 operands, no operand -1}}
  graph.node "aten.cat.default"(%x) {tensors = [#graph.in<0>, #graph.in<-1>]} called "cat" : (tensor<4xf32>) -> ()
  return
}

// -----

// expected-error @below {{graph.weight of argument 0 is not a string}}
func.func @name(%x: tensor<4xf32> {graph.weight = 1}) { return }

// -----

// expected-error @below {{graph.values of argument 0 are not elements of 'tensor<4xf32>'}}
func.func @values(%x: tensor<4xf32> {graph.weight = "w", graph.values = dense<1.0> : tensor<2xf32>}) { return }

// -----

// expected-error @below {{graph.values of argument 0 are not elements of 'tensor<4xf32>'}}
func.func private @values_of_a_declaration(tensor<4xf32> {graph.weight = "w", graph.values = dense<1.0> : tensor<2xf32>})

// -----

// expected-error @below {{unknown attribute 'graph.color' of argument 0}}
func.func @unknown(%x: tensor<4xf32> {graph.color = "red"}) { return }

// -----

// expected-error @below {{graph.functional is no unit attribute}}
func.func @functional(%x: tensor<4xf32>) attributes {graph.functional = 1} { return }

// -----

// expected-error @below {{unknown attribute 'graph.shape'}}
func.func @unknown_of_function(%x: tensor<4xf32>) attributes {graph.shape} { return }
