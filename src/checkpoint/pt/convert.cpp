#include "checkpoint/pt/convert.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <torch/nn/module.h>

#include <algorithm>

#include "base/errors.h"
#include "base/guard.h"
#include "checkpoint/file_reader.h"
#include "checkpoint/tensors.h"

namespace lockstep::checkpoint::pt {
namespace {

using pickle::Value;

constexpr std::string_view kPrefix = "module.";
constexpr std::string_view kCounter = "num_batches_tracked";

template <class F>
auto within_libtorch(const char* what, F&& f) {
  return guarded(what, ErrorKind::kInternal, std::forward<F>(f));
}

at::IntArrayRef ints(const std::vector<std::uint64_t>& values) {
  static_assert(sizeof(std::int64_t) == sizeof(std::uint64_t));
  return {reinterpret_cast<const std::int64_t*>(values.data()), values.size()};
}

// All bytes of a storage as a tensor on its device.
at::Tensor bytes_of(const c10::Storage& storage, at::Device device) {
  const auto bytes = static_cast<std::int64_t>(storage.nbytes());
  return at::empty({0}, at::TensorOptions(device).dtype(at::kByte)).set_(storage, 0, {bytes}, {1});
}

std::shared_ptr<Storage> storage_of(const at::Tensor& tensor) {
  auto bytes = std::make_shared<at::Tensor>(bytes_of(tensor.storage(), tensor.device()).cpu());
  auto storage = std::make_shared<Storage>();
  storage->size = bytes->nbytes();
  storage->data = static_cast<const std::byte*>(bytes->const_data_ptr());
  storage->owner = std::move(bytes);
  return storage;
}

// Others are undefined behaviour in C++.
bool all_bools(const Storage& storage) {
  return std::ranges::all_of(storage.bytes(), [](std::byte b) { return b <= std::byte{1}; });
}

struct Named {
  NamedTensors tensors;
  Value metadata = Value::ordered_dict();
};

// Module._save_to_state_dict and state_dict() of torch/nn/modules/module.py.
void collect(const torch::nn::Module& module, const std::string& prefix, Named& out) {
  const auto parameters = module.named_parameters(false);
  const auto buffers = module.named_buffers(false);
  const int version = buffers.contains(std::string(kCounter)) ? 2 : 1;
  out.metadata.set(prefix.substr(0, prefix.empty() ? 0 : prefix.size() - 1),
                   Value::dict({{"version", version}}));
  for (const auto& item : parameters) out.tensors.emplace_back(prefix + item.key(), item.value());
  for (const auto& item : buffers) out.tensors.emplace_back(prefix + item.key(), item.value());
  for (const auto& child : module.named_children())
    collect(*child.value(), prefix + child.key() + ".", out);
}

Entry entry_of(const std::string& name, const at::Tensor& tensor) {
  const auto dtype = checkpoint::dtype_of(tensor.scalar_type());
  Entry entry{{name, dtype.value_or(DType::kF32), {}}};
  for (const std::int64_t n : tensor.sizes())
    entry.info.shape.push_back(static_cast<std::uint64_t>(n));
  return entry;
}

bool all_prefixed(const NamedTensors& tensors) {
  return std::ranges::all_of(tensors,
                             [](const auto& item) { return item.first.starts_with(kPrefix); });
}

// Names of a wrapped module, as DistributedDataParallel's, become those of the module within it,
// and the other way round: as `own` has them.
void settle_prefix(NamedTensors& given, const NamedTensors& own) {
  const bool has = all_prefixed(given), wanted = all_prefixed(own);
  for (auto& [name, tensor] : given) {
    if (has && !wanted) name.erase(0, kPrefix.size());
    if (wanted && !has) name.insert(0, kPrefix);
  }
}

using Sources = std::map<std::string_view, const at::Tensor*>;

Sources by_name(const NamedTensors& tensors) {
  Sources sources;
  for (const auto& [name, tensor] : tensors) sources[name] = &tensor;
  return sources;
}

// The module's tensors that the file must have: those, and counters that it has.
NamedTensors wanted(NamedTensors own, const Sources& given) {
  std::erase_if(own, [&](const auto& item) {
    return item.first.ends_with(kCounter) && !given.contains(item.first);
  });
  return own;
}

Status check(const NamedTensors& given, const NamedTensors& own) {
  Header header;
  std::vector<NamedTarget> targets;
  for (const auto& [name, tensor] : given) header.entries.push_back(entry_of(name, tensor));
  for (const auto& [name, tensor] : own) targets.push_back({entry_of(name, tensor).info, {}});
  if (const auto differs = difference(header, targets))
    return bad_data("the state_dict is not of this model: " + *differs);
  return {};
}

}  // namespace

Result<Value> Exporter::tensor(const at::Tensor& tensor) { return add("", tensor); }

Result<Value> Exporter::add(const std::string& name, const at::Tensor& given) {
  return within_libtorch("saving tensors", [&]() -> Result<Value> {
    const std::string who = "tensor " + quote(name);
    if (!given.defined()) return Error{ErrorKind::kUsage, who + " is undefined"};
    const auto dtype = checkpoint::dtype_of(given.scalar_type());
    if (!dtype || given.layout() != at::kStrided)
      return Error{ErrorKind::kUsage,
                   who + " cannot be saved, for its dtype or layout: " + given.toString()};
    const at::Tensor tensor = given.detach().resolve_neg();
    auto& storage = storages_[tensor.storage().unsafeGetStorageImpl()];
    if (storage == nullptr) storage = storage_of(tensor);
    const auto value = std::make_shared<TensorValue>();
    value->storage = storage;
    value->dtype = *dtype;
    value->offset = static_cast<std::uint64_t>(tensor.storage_offset()) * size_of(*dtype);
    value->shape.assign(tensor.sizes().begin(), tensor.sizes().end());
    value->strides.assign(tensor.strides().begin(), tensor.strides().end());
    return Value(value);
  });
}

Result<Value> Exporter::state_dict(const NamedTensors& tensors) {
  Value dict = Value::ordered_dict();
  for (const auto& [name, tensor] : tensors) {
    LOCKSTEP_ASSIGN(Value value, add(name, tensor));
    dict.set(name, std::move(value));
  }
  return dict;
}

Result<Value> Exporter::state_dict(const torch::nn::Module& module) {
  Named named;
  collect(module, "", named);
  LOCKSTEP_ASSIGN(Value dict, state_dict(named.tensors));
  dict.dict_value()->attributes = Value::dict({{"_metadata", named.metadata}});
  return dict;
}

Result<at::Tensor> Importer::tensor(const Value& value) {
  return within_libtorch("loading tensors", [&]() -> Result<at::Tensor> {
    const auto tensor = value.as<TensorValue>();
    if (tensor == nullptr) return bad_data(value.type() + " stands where a tensor is due");
    LOCKSTEP_TRY(check_bounds(*tensor));
    if (tensor->dtype == DType::kBool && !all_bools(*tensor->storage))
      return bad_data("a bool tensor's storage has bytes other than 0 and 1");
    at::Tensor& bytes = storages_[tensor->storage.get()];
    if (!bytes.defined())
      bytes = at::from_blob(
          const_cast<std::byte*>(tensor->storage->data),  // ours alone
          {static_cast<std::int64_t>(tensor->storage->size)}, [owner = tensor->storage](void*) {},
          at::TensorOptions().dtype(at::kByte));
    at::Tensor made = at::empty({0}, at::TensorOptions().dtype(scalar_type(tensor->dtype)));
    made.set_(bytes.storage(), static_cast<std::int64_t>(tensor->offset / size_of(tensor->dtype)),
              ints(tensor->shape), ints(tensor->strides));
    return made.set_requires_grad(tensor->requires_grad && made.is_floating_point());
  });
}

Result<NamedTensors> Importer::state_dict(const Value& dict) {
  if (dict.dict_value() == nullptr)
    return bad_data(dict.type() + " stands where a state_dict is due");
  NamedTensors tensors;
  for (const auto& [key, value] : dict.dict_value()->pairs) {
    if (key.text() == nullptr) return bad_data("a state_dict has " + key.type() + " as a name");
    auto made = tensor(value);
    if (!made.ok())
      return Error{made.error().kind, quote(*key.text()) + ": " + made.error().message};
    tensors.emplace_back(*key.text(), *std::move(made));
  }
  return tensors;
}

Status load_state_dict(torch::nn::Module& module, const Value& dict) {
  Importer importer;
  LOCKSTEP_ASSIGN(NamedTensors given, importer.state_dict(dict));
  return load_state_dict(module, std::move(given));
}

Status load_state_dict(torch::nn::Module& module, NamedTensors given) {
  Named named;
  collect(module, "", named);
  settle_prefix(given, named.tensors);
  const Sources sources = by_name(given);
  const NamedTensors own = wanted(std::move(named.tensors), sources);
  LOCKSTEP_TRY(check(given, own));
  return within_libtorch("loading a state_dict", [&]() -> Status {
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : own) at::Tensor(tensor).copy_(*sources.at(name));
    return {};
  });
}

}  // namespace lockstep::checkpoint::pt
