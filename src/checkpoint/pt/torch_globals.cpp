// What torch.save's globals mean: torch/_utils.py (_rebuild_*), torch/nn/parameter.py,
// torch/_weights_only_unpickler.py.
#include <algorithm>
#include <array>

#include "base/errors.h"
#include "checkpoint/pt/tensor.h"

namespace lockstep::checkpoint::pt {
namespace {

using pickle::Global;
using pickle::Items;
using pickle::Value;
using Arguments = std::span<const Value>;

constexpr std::array<TorchType, 15> kTypes{{{DType::kBool, "bool", "BoolStorage"},
                                            {DType::kU8, "uint8", "ByteStorage"},
                                            {DType::kI8, "int8", "CharStorage"},
                                            {DType::kF8E5M2, "float8_e5m2", nullptr},
                                            {DType::kF8E4M3, "float8_e4m3fn", nullptr},
                                            {DType::kI16, "int16", "ShortStorage"},
                                            {DType::kU16, "uint16", nullptr},
                                            {DType::kF16, "float16", "HalfStorage"},
                                            {DType::kBF16, "bfloat16", "BFloat16Storage"},
                                            {DType::kI32, "int32", "IntStorage"},
                                            {DType::kU32, "uint32", nullptr},
                                            {DType::kF32, "float32", "FloatStorage"},
                                            {DType::kF64, "float64", "DoubleStorage"},
                                            {DType::kI64, "int64", "LongStorage"},
                                            {DType::kU64, "uint64", nullptr}}};

// A piece of a storage, as a persistent id names it.
struct StorageRef final : pickle::Object {
  std::shared_ptr<Storage> storage;
  DType dtype = DType::kU8;
  std::uint64_t begin = 0;  // bytes
  std::string type() const override { return "a storage without a tensor"; }
  bool complete() const override { return false; }
};

Result<std::vector<std::uint64_t>> sizes_of(const Value& value) {
  const Items* const items = value.tuple_items();
  if (items == nullptr) return bad_data("sizes and strides are tuples, not " + value.type());
  std::vector<std::uint64_t> sizes;
  for (const Value& item : *items) {
    if (item.integer() == nullptr || *item.integer() < 0)
      return bad_data("a size or stride is no count");
    sizes.push_back(static_cast<std::uint64_t>(*item.integer()));
  }
  return sizes;
}

bool nothing(const Value& value) {
  return value.is_none() || (value.dict_value() != nullptr && value.dict_value()->pairs.empty());
}

// (storage, offset in elements, sizes, strides), of `dtype` or else of the storage's.
Result<std::shared_ptr<TensorValue>> view(Arguments arguments, const DType* dtype) {
  const auto storage = arguments[0].as<StorageRef>();
  const std::int64_t* const offset = arguments[1].integer();
  if (storage == nullptr || offset == nullptr || *offset < 0)
    return bad_data("takes a storage and an offset, not " + arguments[0].type() + " and " +
                    arguments[1].type());
  const auto tensor = std::make_shared<TensorValue>();
  tensor->storage = storage->storage;
  tensor->dtype = dtype == nullptr ? storage->dtype : *dtype;
  LOCKSTEP_ASSIGN(tensor->shape, sizes_of(arguments[2]));
  LOCKSTEP_ASSIGN(tensor->strides, sizes_of(arguments[3]));
  const auto elements = static_cast<std::uint64_t>(*offset);
  if (__builtin_mul_overflow(elements, size_of(tensor->dtype), &tensor->offset) ||
      __builtin_add_overflow(tensor->offset, storage->begin, &tensor->offset))
    return bad_data("an offset beyond 64 bits");
  LOCKSTEP_TRY(check_bounds(*tensor));
  return tensor;
}

Result<Value> rebuild_tensor(Arguments arguments) {
  if (arguments.size() != 4) return bad_data("takes (storage, offset, size, stride)");
  LOCKSTEP_ASSIGN(auto tensor, view(arguments, nullptr));
  return Value(tensor);
}

// requires_grad, hooks and, from `metadata` on, at most one more: conj and neg bits.
Status finish(TensorValue& tensor, Arguments arguments, std::size_t metadata) {
  const bool* const grad = arguments[4].boolean();
  if (grad == nullptr || !nothing(arguments[5]))
    return bad_data("requires_grad is no bool, or there are hooks");
  if (arguments.size() > metadata && !nothing(arguments[metadata]))
    return bad_data("conjugated or negated views are not read; save tensor.resolve_neg()");
  tensor.requires_grad = *grad;
  return {};
}

Result<Value> rebuild_tensor_v2(Arguments arguments) {
  if (arguments.size() != 6 && arguments.size() != 7) return bad_data("takes 6 or 7 arguments");
  LOCKSTEP_ASSIGN(auto tensor, view(arguments, nullptr));
  LOCKSTEP_TRY(finish(*tensor, arguments, 6));
  return Value(tensor);
}

Result<Value> rebuild_tensor_v3(Arguments arguments) {
  if (arguments.size() != 7 && arguments.size() != 8) return bad_data("takes 7 or 8 arguments");
  const auto named = arguments[6].as<pickle::Named>();
  const std::string name = named == nullptr ? "" : std::string(named->global().name);
  const auto* const type = std::ranges::find_if(
      kTypes, [&](const TorchType& t) { return name == std::string("torch.") + t.name; });
  if (type == kTypes.end()) return bad_data(arguments[6].type() + " is no dtype that we have");
  LOCKSTEP_ASSIGN(auto tensor, view(arguments, &type->dtype));
  LOCKSTEP_TRY(finish(*tensor, arguments, 7));
  return Value(tensor);
}

Value parameter_of(const TensorValue& data, bool requires_grad) {
  const auto made = std::make_shared<TensorValue>();
  made->storage = data.storage;
  made->dtype = data.dtype;
  made->offset = data.offset;
  made->shape = data.shape;
  made->strides = data.strides;
  made->requires_grad = requires_grad;
  made->parameter = true;
  return made;
}

// Parameter(data, requires_grad=True)
Result<Value> parameter(Arguments arguments) {
  const auto data = arguments.empty() ? nullptr : arguments[0].as<TensorValue>();
  const bool right =
      arguments.size() == 1 || (arguments.size() == 2 && arguments[1].boolean() != nullptr);
  if (data == nullptr || !right) return bad_data("takes (tensor) or (tensor, requires_grad)");
  return parameter_of(*data, arguments.size() == 1 || *arguments[1].boolean());
}

Result<Value> rebuild_parameter(Arguments arguments) {
  if (arguments.size() != 3 || !nothing(arguments[2]))
    return bad_data("takes (tensor, requires_grad, no hooks)");
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

constexpr std::array kGlobals{
    Global{"torch._utils._rebuild_tensor", rebuild_tensor},
    Global{"torch._utils._rebuild_tensor_v2", rebuild_tensor_v2},
    Global{"torch._utils._rebuild_tensor_v3", rebuild_tensor_v3},
    Global{"torch._utils._rebuild_parameter", rebuild_parameter},
    Global{"torch.nn.parameter.Parameter", parameter, true},
    Global{"torch.Size", size, true},
    Global{"torch.device", device},
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

bool is_location(const std::string& text) {
  const std::string kind = text.substr(0, text.find(':'));
  constexpr std::array kKinds{"cpu", "cuda", "mps", "xpu", "hpu", "npu"};
  const std::string index = kind.size() == text.size() ? "0" : text.substr(kind.size() + 1);
  return std::ranges::find(kKinds, kind) != kKinds.end() && !index.empty() && index.size() < 4 &&
         index.find_first_not_of("0123456789") == std::string::npos;
}

Result<DType> dtype_of_class(const Value& value) {
  const auto named = value.as<pickle::Named>();
  const std::string name = named == nullptr ? "" : std::string(named->global().name);
  if (name == "torch.storage.UntypedStorage") return DType::kU8;
  for (const TorchType& type : kTypes)
    if (type.storage != nullptr && name == std::string("torch.") + type.storage) return type.dtype;
  return bad_data(value.type() + " is no storage class that we have");
}

// (key, first element, elements) of a view in a storage: in the old stream alone.
Status narrow(StorageRef& ref, const Value& view) {
  const Items* const items = view.tuple_items();
  const bool right = items != nullptr && items->size() == 3 && (*items)[0].text() != nullptr &&
                     (*items)[1].integer() != nullptr && (*items)[2].integer() != nullptr;
  if (!right) return bad_data("a storage's view is not (key, offset, size)");
  const auto begin = static_cast<std::uint64_t>(*(*items)[1].integer());
  const auto count = static_cast<std::uint64_t>(*(*items)[2].integer());
  const std::uint64_t all = ref.storage->size / size_of(ref.dtype);
  if (begin > all || count > all - begin) return bad_data("a storage's view goes beyond it");
  ref.begin = begin * size_of(ref.dtype);
  return {};
}

}  // namespace

std::span<const Global> torch_globals() { return kGlobals; }
const TorchType& torch_type(DType dtype) { return kTypes[static_cast<std::size_t>(dtype)]; }

Status TensorValue::build(const Value& state) {
  const Items* const items = state.tuple_items();
  if (!parameter || items == nullptr || items->size() != 3 || (*items)[0].boolean() == nullptr ||
      !nothing((*items)[2]))
    return bad_data(type() + " takes no such state");
  requires_grad = *(*items)[0].boolean();
  return {};
}

Result<Value> StorageTable::resolve(const Value& id) {
  const Items* const items = id.tuple_items();
  const std::string* const kind = items == nullptr || items->empty() ? nullptr : (*items)[0].text();
  if (kind != nullptr && *kind == "module")
    return bad_data(
        "the file holds a whole model with its code; save model.state_dict() in Python");
  if (kind == nullptr || *kind != "storage" || items->size() < 5 || items->size() > 6)
    return bad_data("a persistent id is not ('storage', class, key, location, elements)");
  const std::string* const key = (*items)[2].text();
  const std::string* const location = (*items)[3].text();
  const std::int64_t* const elements = (*items)[4].integer();
  if (key == nullptr || key->size() > 64 || elements == nullptr || *elements < 0)
    return bad_data("a storage's key is no short text, or its size no count");
  if (location == nullptr || !is_location(*location))
    return bad_data("a storage lies on " + (location == nullptr ? "no device" : quote(*location)) +
                    "; cpu, cuda and the like are read: save tensor.cpu()");
  const auto ref = std::make_shared<StorageRef>();
  LOCKSTEP_ASSIGN(ref->dtype, dtype_of_class((*items)[1]));
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(*elements), size_of(ref->dtype), &bytes))
    return bad_data("a storage's size is beyond 64 bits");
  const auto [entry, fresh] = entries_.try_emplace(*key, Entry{nullptr, size_of(ref->dtype)});
  if (fresh) entry->second.storage = std::make_shared<Storage>();
  if (fresh) entry->second.storage->size = bytes;
  ref->storage = entry->second.storage;
  if (ref->storage->size != bytes || entry->second.element_bytes != size_of(ref->dtype))
    return bad_data("storage " + quote(*key) + " has two sizes");
  if (items->size() == 6 && !(*items)[5].is_none()) LOCKSTEP_TRY(narrow(*ref, (*items)[5]));
  return Value(ref);
}

}  // namespace lockstep::checkpoint::pt
