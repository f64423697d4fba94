// What torch.save's globals mean: torch/_utils.py (_rebuild_*), torch/_tensor.py,
// torch/nn/parameter.py, torch/_weights_only_unpickler.py.
#include <algorithm>
#include <array>

#include "base/errors.h"
#include "checkpoint/pt/torch_types.h"
#include "pickle/array.h"

namespace lockstep::checkpoint::pt {
namespace {

using pickle::Dict;
using pickle::Global;
using pickle::Items;
using pickle::Value;
using Arguments = std::span<const Value>;

Result<std::vector<std::uint64_t>> sizes_of(const Value& value) {
  const Items* const items = value.tuple_items();
  if (items == nullptr) return bad_data("sizes and strides are tuples, not " + value.type());
  std::vector<std::uint64_t> sizes;
  for (const Value& item : *items) {
    if (item.integer() == nullptr || *item.integer() < 0)
      return bad_data("a size or stride is no count");
    sizes.push_back(static_cast<std::uint64_t>(*item.integer()));
  }
  if (sizes.size() > kMaxRank)
    return bad_data(std::to_string(sizes.size()) + " sizes or strides; at most " +
                    std::to_string(kMaxRank) + " are read");
  return sizes;
}

Value leaf(std::string dtype, std::vector<std::uint64_t> shape) {
  const auto made = std::make_shared<TensorLeaf>();
  made->dtype = std::move(dtype);
  made->shape = std::move(shape);
  return made;
}

// (storage, offset in elements, sizes, strides), of `element` or else of the storage's.
Result<Value> view(Arguments arguments, const Element* given, bool requires_grad) {
  const auto storage = arguments[0].as<StorageRef>();
  const std::int64_t* const offset = arguments[1].integer();
  if (storage == nullptr || offset == nullptr || *offset < 0)
    return bad_data("takes a storage and an offset, not " + arguments[0].type() + " and " +
                    arguments[1].type());
  const auto tensor = std::make_shared<TensorValue>();
  LOCKSTEP_ASSIGN(tensor->shape, sizes_of(arguments[2]));
  LOCKSTEP_ASSIGN(tensor->strides, sizes_of(arguments[3]));
  const Element& element = given == nullptr ? storage->element : *given;
  if (!storage->place.empty())
    return leaf(element.name() + " (" + storage->place + ")", std::move(tensor->shape));
  if (element.dtype == DType::kOpaque) return leaf(element.other, std::move(tensor->shape));
  tensor->storage = storage->storage;
  tensor->dtype = element.dtype;
  tensor->requires_grad = requires_grad;
  const auto elements = static_cast<std::uint64_t>(*offset);
  if (__builtin_mul_overflow(elements, size_of(tensor->dtype), &tensor->offset) ||
      __builtin_add_overflow(tensor->offset, storage->begin, &tensor->offset))
    return bad_data("an offset beyond 64 bits");
  LOCKSTEP_TRY(check_bounds(*tensor));
  return Value(tensor);
}

Result<Value> rebuild_tensor(Arguments arguments) {
  if (arguments.size() != 4) return bad_data("takes (storage, offset, size, stride)");
  return view(arguments, nullptr, false);
}

// After those four: requires_grad, hooks (Python's functions: dropped) and, from `metadata` on, at
// most one more: conj and neg bits.
Result<Value> rebuild(Arguments arguments, const Element* element, std::size_t metadata) {
  const bool* const grad = arguments[4].boolean();
  if (grad == nullptr) return bad_data("requires_grad is no bool");
  LOCKSTEP_ASSIGN(Value made, view(arguments, element, *grad));
  const Dict* const bits = arguments.size() > metadata ? arguments[metadata].dict_value() : nullptr;
  const auto tensor = made.as<TensorValue>();
  if (bits == nullptr || bits->pairs.empty() || tensor == nullptr) return made;
  return leaf(std::string(name_of(tensor->dtype)) + " (negated view)", tensor->shape);
}

Result<Value> rebuild_tensor_v2(Arguments arguments) {
  if (arguments.size() != 6 && arguments.size() != 7) return bad_data("takes 6 or 7 arguments");
  return rebuild(arguments, nullptr, 6);
}

Result<Value> rebuild_tensor_v3(Arguments arguments) {
  if (arguments.size() != 7 && arguments.size() != 8) return bad_data("takes 7 or 8 arguments");
  LOCKSTEP_ASSIGN(const Element element, element_of(arguments[6]));
  return rebuild(arguments, &element, 7);
}

// (storage, offset, size, stride, quantizer, requires_grad, hooks)
Result<Value> rebuild_quantized(Arguments arguments) {
  if (arguments.size() != 7) return bad_data("takes 7 arguments");
  return view(arguments, nullptr, false);
}

Result<std::string> dtype_name(const Value& tensor) {
  if (const auto value = tensor.as<TensorValue>()) return std::string(name_of(value->dtype));
  if (const auto other = tensor.as<TensorLeaf>()) return other->dtype;
  return bad_data(tensor.type() + " stands where a tensor is due");
}

// (layout, (indices, values, size[, coalesced])), or with two kinds of indices before the values.
Result<Value> rebuild_sparse(Arguments arguments) {
  const Items* const data = arguments.size() == 2 ? arguments[1].tuple_items() : nullptr;
  if (data == nullptr || data->size() < 3) return bad_data("takes (layout, its parts)");
  const std::size_t values = (*data)[2].tuple_items() != nullptr ? 1 : 2;
  if (data->size() <= values + 1) return bad_data("takes (layout, its parts)");
  LOCKSTEP_ASSIGN(const std::string dtype, dtype_name((*data)[values]));
  LOCKSTEP_ASSIGN(auto shape, sizes_of((*data)[values + 1]));
  const std::string layout = global_name(arguments[0]);
  return leaf(dtype + " (" + layout.substr(layout.rfind('.') + 1) + ")", std::move(shape));
}

// ("torch.sparse_coo")
Result<Value> layout(Arguments arguments) {
  const std::string* const name = arguments.size() == 1 ? arguments[0].str() : nullptr;
  const auto of_name = [](char c) { return (c >= 'a' && c <= 'z') || c == '_' || c == '.'; };
  if (name == nullptr || name->size() > 40 || !std::ranges::all_of(*name, of_name))
    return bad_data("takes a layout's name");
  return Value::opaque(*name);
}

// (dtype, size, stride, requires_grad)
Result<Value> rebuild_meta(Arguments arguments) {
  if (arguments.size() != 4) return bad_data("takes (dtype, size, stride, requires_grad)");
  LOCKSTEP_ASSIGN(const Element element, element_of(arguments[0]));
  LOCKSTEP_ASSIGN(auto shape, sizes_of(arguments[1]));
  return leaf(element.name() + " (meta)", std::move(shape));
}

// (all values, sizes of each, strides, offsets)
Result<Value> rebuild_nested(Arguments arguments) {
  if (arguments.size() != 4) return bad_data("takes (values, sizes, strides, offsets)");
  LOCKSTEP_ASSIGN(const std::string dtype, dtype_name(arguments[0]));
  const auto sizes = arguments[1].as<TensorValue>();
  if (sizes == nullptr || sizes->shape.empty()) return bad_data("its sizes are no tensor of sizes");
  return leaf(dtype + " (nested)", {sizes->shape[0]});
}

// (class, dtype, size, strides, offset, layout, device, requires_grad)
Result<Value> rebuild_subclass(Arguments arguments) {
  if (arguments.size() != 8) return bad_data("takes 8 arguments");
  LOCKSTEP_ASSIGN(const Element element, element_of(arguments[1]));
  LOCKSTEP_ASSIGN(auto shape, sizes_of(arguments[2]));
  return leaf(element.name() + " (" + global_name(arguments[0]) + ")", std::move(shape));
}

// (data, dtype, device, requires_grad): of a device without storages.
Result<Value> rebuild_of_device(Arguments arguments) {
  if (arguments.size() != 4) return bad_data("takes (data, dtype, device, requires_grad)");
  LOCKSTEP_ASSIGN(const Element element, element_of(arguments[1]));
  const auto tensor = arguments[0].as<TensorValue>();
  if (tensor != nullptr && tensor->dtype == element.dtype) return arguments[0];
  if (tensor != nullptr) return leaf(element.name() + " (of a device)", tensor->shape);
  const auto array = arguments[0].as<pickle::Array>();
  if (array == nullptr) return bad_data(arguments[0].type() + " stands where data are due");
  return leaf(element.name() + " (of a device)", array->shape());
}

// (function, class, its arguments, attributes): a tensor with attributes, or of a class of its own.
// The attributes are dropped.
Result<Value> rebuild_from_type(Arguments arguments) {
  const Items* const of_function = arguments.size() == 4 ? arguments[2].tuple_items() : nullptr;
  if (of_function == nullptr) return bad_data("takes (function, class, arguments, attributes)");
  const auto function = arguments[0].as<pickle::Named>();
  if (function == nullptr) return Value::opaque(global_name(arguments[1]));
  if (function->global().call == nullptr || function->global().call == rebuild_from_type)
    return bad_data(global_name(arguments[0]) + " makes no tensor");
  return function->global().call(*of_function);
}

// Parameter(data, requires_grad=True)
Result<Value> parameter(Arguments arguments) {
  const bool right =
      arguments.size() == 1 || (arguments.size() == 2 && arguments[1].boolean() != nullptr);
  if (!right) return bad_data("takes (tensor) or (tensor, requires_grad)");
  if (arguments[0].as<TensorLeaf>() != nullptr) return arguments[0];
  const auto data = arguments[0].as<TensorValue>();
  if (data == nullptr) return bad_data(arguments[0].type() + " stands where a tensor is due");
  const auto made = std::make_shared<TensorValue>();
  made->storage = data->storage;
  made->dtype = data->dtype;
  made->offset = data->offset;
  made->shape = data->shape;
  made->strides = data->strides;
  made->requires_grad = arguments.size() == 1 || *arguments[1].boolean();
  made->parameter = true;
  return Value(made);
}

// (tensor, requires_grad, hooks[, attributes]): the last two are dropped.
Result<Value> rebuild_parameter(Arguments arguments) {
  if (arguments.size() != 3 && arguments.size() != 4)
    return bad_data("takes (tensor, requires_grad, hooks) and attributes");
  return parameter(arguments.first(2));
}

Result<Value> size(Arguments arguments) {
  if (arguments.size() != 1) return bad_data("takes a tuple");
  LOCKSTEP_TRY(sizes_of(arguments[0]));
  return arguments[0];
}

// As its text: "cuda:0".
Result<Value> device(Arguments arguments) {
  const bool right =
      !arguments.empty() && arguments[0].str() != nullptr &&
      (arguments.size() == 1 || (arguments.size() == 2 && arguments[1].integer() != nullptr));
  if (!right) return bad_data("takes (type) or (type, index)");
  std::string text = *arguments[0].str();
  if (arguments.size() == 2) text += ":" + std::to_string(*arguments[1].integer());
  return Value(text);
}

// torch/csrc/jit/serialization/pickler.cpp: a list with the type of what it holds.
Result<Value> first_of(Arguments arguments) {
  if (arguments.empty()) return bad_data("takes a value");
  return arguments[0];
}

constexpr std::array kGlobals{
    Global{"torch._utils._rebuild_tensor", rebuild_tensor},
    Global{"torch._utils._rebuild_tensor_v2", rebuild_tensor_v2},
    Global{"torch._utils._rebuild_tensor_v3", rebuild_tensor_v3},
    Global{"torch._utils._rebuild_parameter", rebuild_parameter},
    Global{"torch._utils._rebuild_parameter_with_state", rebuild_parameter},
    Global{"torch._utils._rebuild_qtensor", rebuild_quantized},
    Global{"torch._utils._rebuild_sparse_tensor", rebuild_sparse},
    Global{"torch._utils._rebuild_sparse_csr_tensor", rebuild_sparse},
    Global{"torch._utils._rebuild_meta_tensor_no_storage", rebuild_meta},
    Global{"torch._utils._rebuild_nested_tensor", rebuild_nested},
    Global{"torch._utils._rebuild_wrapper_subclass", rebuild_subclass},
    Global{"torch._utils._rebuild_device_tensor_from_numpy", rebuild_of_device},
    Global{"torch._utils._rebuild_device_tensor_from_cpu_tensor", rebuild_of_device},
    Global{"torch._utils._rebuild_xla_tensor", rebuild_of_device},
    Global{"torch._tensor._rebuild_from_type_v2", rebuild_from_type},
    Global{"torch._tensor._rebuild_from_type", rebuild_from_type},
    Global{"torch.serialization._get_layout", layout},
    Global{"torch.nn.parameter.Parameter", parameter, true},
    Global{"torch.Size", size, true},
    Global{"torch.device", device},
    Global{"torch.jit._pickle.restore_type_tag", first_of},
    Global{"torch.jit._pickle.build_intlist", first_of},
    Global{"torch.jit._pickle.build_doublelist", first_of},
    Global{"torch.jit._pickle.build_boollist", first_of},
    Global{"torch.jit._pickle.build_tensorlist", first_of},
    Global{"torch.BoolStorage"},
    Global{"torch.ByteStorage"},
    Global{"torch.CharStorage"},
    Global{"torch.ShortStorage"},
    Global{"torch.HalfStorage"},
    Global{"torch.BFloat16Storage"},
    Global{"torch.IntStorage"},
    Global{"torch.FloatStorage"},
    Global{"torch.DoubleStorage"},
    Global{"torch.LongStorage"},
    Global{"torch.storage.UntypedStorage"},
    Global{"torch.bool", nullptr, false, true},
    Global{"torch.uint8", nullptr, false, true},
    Global{"torch.int8", nullptr, false, true},
    Global{"torch.float8_e5m2", nullptr, false, true},
    Global{"torch.float8_e4m3fn", nullptr, false, true},
    Global{"torch.int16", nullptr, false, true},
    Global{"torch.uint16", nullptr, false, true},
    Global{"torch.float16", nullptr, false, true},
    Global{"torch.bfloat16", nullptr, false, true},
    Global{"torch.int32", nullptr, false, true},
    Global{"torch.uint32", nullptr, false, true},
    Global{"torch.float32", nullptr, false, true},
    Global{"torch.float64", nullptr, false, true},
    Global{"torch.int64", nullptr, false, true},
    Global{"torch.uint64", nullptr, false, true},
};

}  // namespace

std::span<const Global> torch_globals() { return kGlobals; }

Status TensorValue::build(const Value& state) {
  const Items* const items = state.tuple_items();
  if (!parameter || items == nullptr || items->size() != 3 || (*items)[0].boolean() == nullptr)
    return bad_data(type() + " takes no such state");
  requires_grad = *(*items)[0].boolean();
  return {};
}

}  // namespace lockstep::checkpoint::pt
