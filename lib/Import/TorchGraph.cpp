//===- TorchGraph.cpp - the graph of a torch.export archive ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From the JSON of torch/_export/serde/schema.py to the `graph` dialect, without an opinion
// about what the nodes mean.
//
//===----------------------------------------------------------------------===//

#include "mla/Import/TorchArchive.h"

#include "mla/Dialect/Graph/IR/GraphDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlac;
using namespace mlir;
namespace json = llvm::json;

/// Far more than a model's nodes; what follows is linear in it.
static constexpr size_t kMaxNodes = size_t(1) << 20;
/// Weights of so many elements at most stand in the module, for rotary frequencies.
static constexpr uint64_t kMaxValues = 4096;
/// Of one tensor: a product of its sizes stays within 63 bits.
static constexpr int64_t kMaxSize = int64_t(1) << 40;
static constexpr size_t kMaxRank = 16;

/// The member of a union: an object with one key.
static std::pair<StringRef, const json::Value *> getUnion(const json::Value *value) {
  const json::Object *object = value ? value->getAsObject() : nullptr;
  if (!object || object->size() != 1)
    return {"", nullptr};
  return {object->begin()->first, &object->begin()->second};
}

/// The text `name` of an object; empty without.
static StringRef getName(const json::Value *value, StringRef key = "name") {
  const json::Object *object = value ? value->getAsObject() : nullptr;
  return object ? object->getString(key).value_or("") : "";
}

namespace {
class GraphReader {
public:
  GraphReader(Location loc, const TorchArchive &archive)
      : archive(archive), loc(loc), builder(loc.getContext()) {}
  OwningOpRef<ModuleOp> read();

private:
  /// What a graph's argument is.
  struct Input {
    StringRef name; ///< of the value
    StringRef weight;
    bool isParameter = false;
    Type type;
  };

  /// Emits the error, once.
  LogicalResult fail(const Twine &message) { return emitError(loc) << message; }
  FailureOr<Type> readType(StringRef tensor);
  LogicalResult readInputs(const json::Object &signature, const json::Array &inputs);
  LogicalResult checkWeight(const Input &input);
  FailureOr<Attribute> readValues(const Input &input);
  LogicalResult define(StringRef name, Value value);

  LogicalResult readNode(const json::Object &node);
  LogicalResult readOutput(const json::Value &output, SmallVectorImpl<StringRef> &names,
                           SmallVectorImpl<Type> &types);
  FailureOr<Attribute> readArgument(const json::Value &argument);
  FailureOr<Attribute> readList(const json::Value &list,
                                function_ref<FailureOr<Attribute>(const json::Value &)> read);
  FailureOr<Attribute> readNumber(const json::Value &value);
  FailureOr<Attribute> readFloat(const json::Value &value);
  FailureOr<Attribute> readSymbol(const json::Value &value);
  FailureOr<Attribute> use(StringRef name);

  const TorchArchive &archive;
  Location loc;
  OpBuilder builder;
  const json::Object *tensors = nullptr;
  SmallVector<Input> inputs;
  llvm::StringMap<Value> values;
  // Of the node being read.
  StringRef node;
  SmallVector<Value> operands;
};
} // namespace

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

FailureOr<Type> GraphReader::readType(StringRef tensor) {
  const json::Object *meta = tensors->getObject(tensor);
  const json::Array *sizes = meta ? meta->getArray("sizes") : nullptr;
  if (!sizes)
    return fail("tensor '" + tensor + "' has no sizes");
  int64_t dtype = meta->getInteger("dtype").value_or(0);
  Type element = getTorchType(*loc.getContext(), dtype);
  if (!element)
    return fail("tensor '" + tensor + "' has the unknown dtype " + Twine(dtype));
  SmallVector<int64_t> shape;
  int64_t count = 1;
  for (const json::Value &size : *sizes) {
    auto [kind, value] = getUnion(&size);
    std::optional<int64_t> fixed = value ? value->getAsInteger() : std::nullopt;
    if (kind == "as_expr")
      fixed = ShapedType::kDynamic;
    else if (kind != "as_int" || !fixed || *fixed < 0 ||
             *fixed > kMaxSize / std::max(count, int64_t(1)))
      return fail("tensor '" + tensor + "' has a size that is no integer of 0 to 2^40 in all");
    else
      count *= *fixed;
    shape.push_back(*fixed);
  }
  if (shape.size() > kMaxRank)
    return fail("tensor '" + tensor + "' has " + Twine(shape.size()) +
                " dimensions, expected at most " + Twine(kMaxRank));
  return RankedTensorType::get(shape, element);
}

/// A weight is as large, and of the type, as the graph says.
LogicalResult GraphReader::checkWeight(const Input &input) {
  auto found = archive.weights().find(input.weight);
  if (found == archive.weights().end())
    return fail("weight '" + input.weight +
                "' is missing: the archive's lists of weights and "
                "constants have no such tensor");
  const TorchWeight &weight = found->second;
  Type held = RankedTensorType::get(weight.shape, getTorchType(*loc.getContext(), weight.dtype));
  if (held != input.type)
    return emitError(loc) << "weight '" << input.weight << "' is " << held
                          << " in the archive's list and " << input.type << " in its graph";
  return success();
}

/// Null where there are none to keep.
FailureOr<Attribute> GraphReader::readValues(const Input &input) {
  auto type = cast<RankedTensorType>(input.type);
  bool isNumber = type.getRank() == 0 && isa<Float16Type, BFloat16Type>(type.getElementType());
  if (input.isParameter || (!type.getElementType().isF32() && !isNumber) ||
      static_cast<uint64_t>(type.getNumElements()) > kMaxValues)
    return Attribute();
  llvm::Expected<std::string> bytes = archive.readWeight(input.weight);
  if (!bytes)
    return fail(llvm::toString(bytes.takeError()));
  return Attribute(
      DenseElementsAttr::getFromRawBuffer(type, ArrayRef(bytes->data(), bytes->size())));
}

LogicalResult GraphReader::readInputs(const json::Object &signature, const json::Array &list) {
  const json::Array *specs = signature.getArray("input_specs");
  if (!specs || specs->size() != list.size())
    return fail("the graph's signature does not have its " + Twine(list.size()) + " inputs");
  constexpr std::pair<StringLiteral, StringLiteral> kWeights[] = {
      {"parameter", "parameter_name"},
      {"buffer", "buffer_name"},
      {"tensor_constant", "tensor_constant_name"}};
  for (auto [spec, argument] : llvm::zip_equal(*specs, list)) {
    auto [kind, value] = getUnion(&spec);
    auto [argumentKind, tensor] = getUnion(&argument);
    if (kind == "constant_input" || argumentKind == "as_none")
      continue;
    const json::Object *inner = value ? value->getAsObject() : nullptr;
    const json::Value *named = inner ? inner->get("arg") : nullptr;
    if (kind == "user_input")
      named = getUnion(named).second;
    if (getName(named) != getName(tensor))
      return fail("the graph's input '" + getName(tensor) + "' is '" + getName(named) +
                  "' in its signature");
    Input input{getName(tensor), "", kind == "parameter", {}};
    if (argumentKind != "as_tensor" || input.name.empty())
      return fail("an input of the graph is " + (argumentKind.empty() ? "nothing" : argumentKind) +
                  " ('" + getName(tensor) + "'), expected a tensor");
    for (auto [weightKind, key] : kWeights)
      if (kind == weightKind)
        input.weight = getName(value, key);
    if (kind != "user_input" && input.weight.empty())
      return fail("input '" + input.name + "' of the graph is of the unknown kind '" + kind + "'");
    FailureOr<Type> type = readType(input.name);
    if (failed(type))
      return failure();
    input.type = *type;
    if (!input.weight.empty() && failed(checkWeight(input)))
      return failure();
    inputs.push_back(input);
  }
  return success();
}

LogicalResult GraphReader::define(StringRef name, Value value) {
  if (!values.try_emplace(name, value).second)
    return fail("two nodes define '" + name + "'");
  return success();
}

//===----------------------------------------------------------------------===//
// Arguments of nodes
//===----------------------------------------------------------------------===//

FailureOr<Attribute> GraphReader::use(StringRef name) {
  auto value = values.find(name);
  if (value == values.end())
    return fail("node '" + node + "' uses '" + name + "', which no node before it defines");
  operands.push_back(value->second);
  return Attribute(graph::InAttr::get(builder.getContext(), operands.size() - 1));
}

FailureOr<Attribute> GraphReader::readNumber(const json::Value &value) {
  if (std::optional<int64_t> number = value.getAsInteger())
    return Attribute(builder.getI64IntegerAttr(*number));
  return fail("node '" + node + "' has an argument that is no integer");
}

/// Infinities and NaN are texts.
FailureOr<Attribute> GraphReader::readFloat(const json::Value &value) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::optional<double> number = value.getAsNumber();
  if (std::optional<StringRef> text = value.getAsString())
    number = llvm::StringSwitch<std::optional<double>>(*text)
                 .Case("Infinity", kInfinity)
                 .Case("-Infinity", -kInfinity)
                 .Case("NaN", std::numeric_limits<double>::quiet_NaN())
                 .Default(std::nullopt);
  if (!number)
    return fail("node '" + node + "' has an argument that is no number");
  return Attribute(builder.getF64FloatAttr(*number));
}

/// {"as_int": n}, {"as_name": "..."} and the like.
FailureOr<Attribute> GraphReader::readSymbol(const json::Value &value) {
  auto [kind, inner] = getUnion(&value);
  if (kind == "as_int")
    return readNumber(*inner);
  if (kind == "as_float")
    return readFloat(*inner);
  if (kind == "as_bool" && inner->getAsBoolean())
    return Attribute(builder.getBoolAttr(*inner->getAsBoolean()));
  if (kind == "as_name" && inner->getAsString())
    return use(*inner->getAsString());
  return fail("node '" + node + "' has the unknown symbol '" + kind + "'");
}

FailureOr<Attribute>
GraphReader::readList(const json::Value &list,
                      function_ref<FailureOr<Attribute>(const json::Value &)> read) {
  const json::Array *items = list.getAsArray();
  if (!items)
    return fail("node '" + node + "' has an argument that is no list");
  SmallVector<Attribute> result;
  for (const json::Value &item : *items) {
    FailureOr<Attribute> value = read(item);
    if (failed(value))
      return failure();
    result.push_back(*value);
  }
  return Attribute(builder.getArrayAttr(result));
}

FailureOr<Attribute> GraphReader::readArgument(const json::Value &argument) {
  auto [kind, value] = getUnion(&argument);
  auto readTensor = [&](const json::Value &tensor) { return use(getName(&tensor)); };
  auto readOptional = [&](const json::Value &tensor) -> FailureOr<Attribute> {
    auto [optionalKind, inner] = getUnion(&tensor);
    if (optionalKind == "as_tensor")
      return use(getName(inner));
    return Attribute(builder.getUnitAttr());
  };
  auto readNumbers = [&](const json::Value &number) { return readNumber(number); };
  auto readFloats = [&](const json::Value &number) { return readFloat(number); };
  auto readSymbols = [&](const json::Value &symbol) { return readSymbol(symbol); };
  if (!value)
    return fail("node '" + node + "' has an argument without a kind");
  if (kind == "as_none")
    return Attribute(builder.getUnitAttr());
  if (kind == "as_tensor")
    return readTensor(*value);
  if (kind == "as_tensors")
    return readList(*value, readTensor);
  if (kind == "as_optional_tensor")
    return readOptional(*value);
  if (kind == "as_optional_tensors")
    return readList(*value, readOptional);
  if (kind == "as_int" || kind == "as_scalar_type" || kind == "as_layout" ||
      kind == "as_memory_format")
    return readNumber(*value);
  if (kind == "as_ints")
    return readList(*value, readNumbers);
  if (kind == "as_float")
    return readFloat(*value);
  if (kind == "as_floats")
    return readList(*value, readFloats);
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool")
    return readSymbol(*value);
  if (kind == "as_sym_ints" || kind == "as_sym_floats" || kind == "as_sym_bools")
    return readList(*value, readSymbols);
  if (kind == "as_bool" && value->getAsBoolean())
    return Attribute(builder.getBoolAttr(*value->getAsBoolean()));
  if (kind == "as_string" && value->getAsString())
    return Attribute(builder.getStringAttr(*value->getAsString()));
  // Devices, graphs of their own, objects: what cannot be understood is named where it matters.
  return Attribute(builder.getStringAttr("<" + kind + ">"));
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

LogicalResult GraphReader::readOutput(const json::Value &output, SmallVectorImpl<StringRef> &names,
                                      SmallVectorImpl<Type> &types) {
  auto [kind, value] = getUnion(&output);
  auto addTensor = [&](const json::Value *tensor) -> LogicalResult {
    names.push_back(getName(tensor));
    FailureOr<Type> type = readType(names.back());
    types.push_back(succeeded(type) ? *type : Type());
    return type;
  };
  if (kind == "as_none")
    return success();
  if (kind == "as_tensor")
    return addTensor(value);
  if (kind == "as_tensors" && value->getAsArray()) {
    for (const json::Value &tensor : *value->getAsArray())
      if (failed(addTensor(&tensor)))
        return failure();
    return success();
  }
  constexpr std::pair<StringLiteral, unsigned> kSymbols[] = {{"as_sym_int", 0}, {"as_sym_bool", 1}};
  for (auto [symbol, width] : kSymbols)
    if (kind == symbol) {
      names.push_back(getName(value, "as_name"));
      types.push_back(width ? Type(builder.getI1Type()) : Type(builder.getIndexType()));
      return success();
    }
  if (kind == "as_sym_float")
    return fail("node '" + node +
                "' makes a number of a call's sizes, which is not followed: "
                "steps over caches have other sizes than the graph");
  return fail("node '" + node + "' has a result of the unknown kind '" + kind + "'");
}

/// The innermost module of "key,path,class;key,path,class;...": its path and class.
static std::string describeModule(StringRef stack) {
  StringRef innermost = stack.rsplit(';').second;
  SmallVector<StringRef, 3> parts;
  (innermost.empty() ? stack : innermost).split(parts, ',');
  if (parts.size() != 3 || parts[1] == parts[2])
    return "";
  StringRef type = parts[2].contains('.') ? parts[2].rsplit('.').second : parts[2];
  return (parts[1] + (parts[1].empty() ? "" : ": ") + type).str();
}

LogicalResult GraphReader::readNode(const json::Object &object) {
  StringRef target = object.getString("target").value_or("");
  const json::Array *arguments = object.getArray("inputs"), *outputs = object.getArray("outputs");
  const json::Object *metadata = object.getObject("metadata");
  SmallVector<StringRef> names;
  SmallVector<Type> types;
  node = object.getString("name").value_or(target);
  if (target.empty() || !arguments || !outputs)
    return fail("node '" + node + "' has no 'target', 'inputs' and 'outputs'");
  operands.clear();
  NamedAttrList attributes;
  for (const json::Value &argument : *arguments) {
    StringRef name = getName(&argument);
    const json::Value *inner = name.empty() ? nullptr : argument.getAsObject()->get("arg");
    if (!inner)
      return fail("node '" + node + "' has an argument without 'name' and 'arg'");
    FailureOr<Attribute> value = readArgument(*inner);
    if (failed(value))
      return failure();
    if (attributes.set(name, *value))
      return fail("node '" + node + "' has two arguments '" + name + "'");
  }
  for (const json::Value &output : *outputs)
    if (failed(readOutput(output, names, types)))
      return failure();
  if (!object.getString("name") && !names.empty())
    node = names.front();
  target.consume_front("torch.ops.");
  std::string path =
      describeModule(metadata ? metadata->getString("nn_module_stack").value_or("") : "");
  auto op = graph::NodeOp::create(builder, loc, types, target, operands,
                                  attributes.getDictionary(builder.getContext()), node,
                                  path.empty() ? StringAttr() : builder.getStringAttr(path));
  for (auto [name, result] : llvm::zip_equal(names, op.getResults()))
    if (failed(define(name, result)))
      return failure();
  return success();
}

/// What torch verified the graph to be: of this dialect, every operator's schema says that it
/// writes to nothing.
static constexpr StringLiteral kFunctionalDialect = "ATEN";

static bool isFunctional(const json::Object &model) {
  const json::Array *verifiers = model.getArray("verifiers");
  return verifiers && !verifiers->empty() && llvm::all_of(*verifiers, [](const json::Value &each) {
           return each.getAsString() == StringRef(kFunctionalDialect);
         });
}

OwningOpRef<ModuleOp> GraphReader::read() {
  const json::Object *graphModule = archive.model().getObject("graph_module");
  const json::Object *graph = graphModule ? graphModule->getObject("graph") : nullptr;
  const json::Object *signature = graphModule ? graphModule->getObject("signature") : nullptr;
  const json::Array *inputList = graph ? graph->getArray("inputs") : nullptr;
  const json::Array *outputs = graph ? graph->getArray("outputs") : nullptr;
  const json::Array *nodes = graph ? graph->getArray("nodes") : nullptr;
  tensors = graph ? graph->getObject("tensor_values") : nullptr;
  if (!signature || !inputList || !outputs || !nodes || !tensors)
    return (void)fail("its graph has no 'inputs', 'outputs', 'nodes', 'tensor_values' and "
                      "'signature'"),
           nullptr;
  if (nodes->size() > kMaxNodes)
    return (void)fail("its graph has " + Twine(nodes->size()) + " nodes, expected at most " +
                      Twine(kMaxNodes)),
           nullptr;
  if (failed(readInputs(*signature, *inputList)))
    return {};

  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  builder.setInsertionPointToEnd(module->getBody());
  auto function = func::FuncOp::create(
      builder, loc, "forward",
      builder.getFunctionType(
          llvm::map_to_vector(inputs, [](const Input &input) { return input.type; }), {}));
  if (isFunctional(archive.model()))
    function->setAttr(graph::kFunctionalAttr, builder.getUnitAttr());
  builder.setInsertionPointToEnd(function.addEntryBlock());
  for (auto [index, input] : llvm::enumerate(inputs)) {
    StringRef name = input.weight.empty() ? input.name : input.weight;
    function.setArgAttr(index, input.weight.empty() ? graph::kInputAttr : graph::kWeightAttr,
                        builder.getStringAttr(name));
    FailureOr<Attribute> held = input.weight.empty() ? Attribute() : readValues(input);
    if (failed(held) || failed(define(input.name, function.getArgument(index))))
      return {};
    if (*held)
      function.setArgAttr(index, graph::kValuesAttr, *held);
  }
  for (const json::Value &each : *nodes) {
    const json::Object *object = each.getAsObject();
    if (!object)
      return (void)fail("a node of its graph is no JSON object"), nullptr;
    if (failed(readNode(*object)))
      return {};
  }
  node = "output";
  operands.clear();
  for (const json::Value &output : *outputs)
    if (auto [kind, value] = getUnion(&output); kind == "as_tensor" && failed(use(getName(value))))
      return {};
  func::ReturnOp::create(builder, loc, operands);
  function.setType(
      builder.getFunctionType(function.getArgumentTypes(), ValueRange(operands).getTypes()));
  return module;
}

OwningOpRef<ModuleOp> mlac::importTorchGraph(Location loc, const TorchArchive &archive) {
  loc.getContext()->loadDialect<func::FuncDialect, graph::GraphDialect>();
  return GraphReader(loc, archive).read();
}
