#include "checkpoint/pt/convert.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <torch/nn/module.h>

#include <algorithm>

#include "base/errors.h"
#include "base/guard.h"
#include "checkpoint/module_state.h"

namespace lockstep::checkpoint::pt {
namespace {

using pickle::Value;

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

// Module._save_to_state_dict() of torch/nn/modules/module.py and batchnorm.py.
Value metadata_of(const torch::nn::Module& module) {
  Value metadata = Value::ordered_dict();
  for_each_module(module, [&](const std::string& prefix, const torch::nn::Module& each) {
    const int version = each.named_buffers(false).contains(std::string(kCounter)) ? 2 : 1;
    metadata.set(prefix.substr(0, prefix.empty() ? 0 : prefix.size() - 1),
                 Value::dict({{"version", version}}));
  });
  return metadata;
}

std::string joined(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : folder + "." + name;
}

bool is_tensor(const Value& value) {
  return value.as<TensorValue>() != nullptr || value.as<TensorLeaf>() != nullptr;
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
  LOCKSTEP_ASSIGN(Value dict, state_dict(module_tensors(module)));
  dict.dict_value()->attributes = Value::dict({{"_metadata", metadata_of(module)}});
  return dict;
}

Result<at::Tensor> Importer::tensor(const Value& value) {
  return within_libtorch("loading tensors", [&]() -> Result<at::Tensor> {
    if (const auto leaf = value.as<TensorLeaf>()) return unreadable(leaf->info(""));
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
  LOCKSTEP_ASSIGN(auto all, given(dict));
  NamedTensors tensors;
  for (auto& [info, tensor, instead] : all) {
    if (!instead.empty())
      return bad_data(quote(info.name) + ": " + instead + " stands where a tensor is due");
    if (!tensor.defined()) return unreadable(info);
    tensors.emplace_back(info.name, std::move(tensor));
  }
  return tensors;
}

Result<std::vector<GivenTensor>> Importer::given(const Value& dict) {
  const bool leaf = dict.as<pickle::Opaque>() != nullptr;
  if (dict.dict_value() == nullptr)
    return bad_data(dict.type() + " stands where a state_dict is due" +
                    (leaf ? "; a model? save model.state_dict() in Python" : ""));
  std::vector<GivenTensor> all;
  LOCKSTEP_TRY(add(dict, "", all));
  const bool none =
      std::ranges::all_of(all, [](const auto& each) { return !each.instead.empty(); });
  if (!none || all.empty()) return all;
  return bad_data(quote(all[0].info.name) + ": " + all[0].instead +
                  " stands where a tensor is due; a snapshot holds its state_dict under a key");
}

Status Importer::add(const Value& dict, const std::string& folder, std::vector<GivenTensor>& all) {
  const bool object = dict.dict_value()->object;
  for (const auto& [key, value] : dict.dict_value()->pairs) {
    if (key.text() == nullptr) return bad_data("a state_dict has " + key.type() + " as a name");
    const std::string name = joined(folder, *key.text());
    if (value.dict_value() != nullptr && value.dict_value()->object) {
      LOCKSTEP_TRY(add(value, name, all));
      continue;
    }
    if (object && !is_tensor(value)) continue;  // "training" and the like
    LOCKSTEP_ASSIGN(GivenTensor given, one(name, value));
    all.push_back(std::move(given));
  }
  return {};
}

Result<GivenTensor> Importer::one(const std::string& name, const Value& value) {
  if (const auto leaf = value.as<TensorLeaf>()) return GivenTensor{leaf->info(name), {}};
  if (!is_tensor(value)) return GivenTensor{{name, DType::kOpaque, {}}, {}, value.type()};
  auto made = tensor(value);
  if (!made.ok()) return Error{made.error().kind, quote(name) + ": " + made.error().message};
  return GivenTensor{info_of(name, *value.as<TensorValue>()), *std::move(made)};
}

Status load_state_dict(torch::nn::Module& module, const Value& dict) {
  Importer importer;
  LOCKSTEP_ASSIGN(const auto given, importer.given(dict));
  LOCKSTEP_TRY(load_module(module, given, true));
  return {};
}

}  // namespace lockstep::checkpoint::pt
