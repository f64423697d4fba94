// lockstep/checkpoint.h's .pt files: values of the reader and writer as a caller's few kinds.
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <filesystem>

#include "base/env.h"
#include "checkpoint/module_state.h"
#include "checkpoint/pt/convert.h"
#include "checkpoint/pt/optimizer.h"
#include "checkpoint/pt/reader.h"
#include "checkpoint/pt/weights.h"
#include "checkpoint/pt/writer.h"
#include "checkpoint/tensor.h"
#include "checkpoint/user_file.h"
#include "lockstep/optim.h"

namespace lockstep {
namespace {

using checkpoint::quote;
using checkpoint::pt::Exporter;
using checkpoint::pt::Importer;
using pickle::Value;

struct ToPickle {
  Exporter& out;
  Result<Value> operator()(std::monostate) const { return Value(); }
  Result<Value> operator()(bool value) const { return Value(value); }
  Result<Value> operator()(std::int64_t value) const { return Value(value); }
  Result<Value> operator()(double value) const { return Value(value); }
  Result<Value> operator()(const std::string& value) const { return Value(value); }
  Result<Value> operator()(PtScalar scalar) const {
    return out.tensor(at::scalar_tensor(scalar.value, at::kDouble));
  }
  Result<Value> operator()(const std::vector<double>& values) const {
    return Value::list(pickle::Items(values.begin(), values.end()));
  }
  Result<Value> operator()(const NamedTensors& tensors) const { return out.state_dict(tensors); }
  Result<Value> operator()(const torch::nn::Module* module) const {
    if (module == nullptr) return Error{ErrorKind::kUsage, "save_pt(): a module that is nullptr"};
    return out.state_dict(*module);
  }
  Result<Value> operator()(const OptimizerStateDict& dict) const {
    return checkpoint::pt::optimizer_value(out, dict);
  }
};

std::optional<std::vector<double>> numbers(const Value& value) {
  std::vector<double> result;
  if (value.sequence() == nullptr) return {};
  for (const Value& item : value.sequence()->items) {
    if (item.number() == nullptr && item.integer() == nullptr) return {};
    result.push_back(item.number() != nullptr ? *item.number()
                                              : static_cast<double>(*item.integer()));
  }
  return result;
}

PtValue from_item(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  if (tensor.dim() != 0 || at::isComplexType(type)) return std::monostate();
  if (type == at::kBool) return tensor.item<bool>();
  if (at::isFloatingType(type)) return tensor.item<double>();
  return tensor.item<std::int64_t>();
}

PtValue from_pickle(Importer& in, const Value& value) {
  if (const bool* held = value.boolean()) return *held;
  if (const std::int64_t* held = value.integer()) return *held;
  if (const double* held = value.number()) return *held;
  if (const std::string* held = value.text()) return *held;
  if (auto held = numbers(value)) return *std::move(held);
  if (value.as<checkpoint::pt::TensorValue>() != nullptr) {
    const auto tensor = in.tensor(value);
    return tensor.ok() ? from_item(*tensor) : PtValue(std::monostate());
  }
  if (value.dict_value() == nullptr) return std::monostate();
  if (value.find("param_groups") != nullptr) {
    auto optimizer = checkpoint::pt::optimizer_state(in, value);
    return optimizer.ok() ? PtValue(*std::move(optimizer)) : PtValue(std::monostate());
  }
  auto tensors = in.state_dict(value);
  return tensors.ok() ? PtValue(*std::move(tensors)) : PtValue(std::monostate());
}

Status write(const std::string& path, const Value& root) {
  LOCKSTEP_ASSIGN(const std::string place, checkpoint::place_of_user_file(posix_env(), path));
  return checkpoint::pt::write(posix_env(), place, root);
}

Error in_file(const std::string& path, const Error& error) {
  return {error.kind, quote(path) + ": " + error.message};
}

}  // namespace

Status save_pt(const std::string& path, const PtFields& fields) {
  Exporter out;
  Value root = Value::dict();
  for (const auto& [name, field] : fields) {
    LOCKSTEP_ASSIGN(Value value, std::visit(ToPickle{out}, field));
    root.set(name, std::move(value));
  }
  return write(path, root);
}

Status save_pt(const std::string& path, const torch::nn::Module& module) {
  Exporter out;
  LOCKSTEP_ASSIGN(const Value root, out.state_dict(module));
  return write(path, root);
}

Result<PtFields> load_pt(const std::string& path) {
  LOCKSTEP_ASSIGN(const Value root, checkpoint::pt::read(posix_env(), path));
  if (root.dict_value() == nullptr)
    return Error{ErrorKind::kBadData, quote(path) + " holds " + root.type() + ", not a dict"};
  Importer in;
  PtFields fields;
  for (const auto& [key, value] : root.dict_value()->pairs)
    if (key.text() != nullptr) fields.emplace_back(*key.text(), from_pickle(in, value));
  return fields;
}

Result<std::optional<PtFields>> load_pt_if_there(const std::string& path) {
  std::error_code code;  // of a folder that may not be read: load_pt() says so
  if (!std::filesystem::exists(path, code) && !code) return std::optional<PtFields>();
  LOCKSTEP_ASSIGN(PtFields fields, load_pt(path));
  return std::optional(std::move(fields));
}

Status load_state_dict(torch::nn::Module& module, const std::string& path, const std::string& key) {
  LOCKSTEP_TRY(load_state_dict(module, path, key, LoadStateDictOptions{}));
  return {};
}

Result<IncompatibleKeys> load_state_dict(torch::nn::Module& module, const std::string& path,
                                         const LoadStateDictOptions& options) {
  return load_state_dict(module, path, "", options);
}

Result<IncompatibleKeys> load_state_dict(torch::nn::Module& module, const std::string& path,
                                         const std::string& key,
                                         const LoadStateDictOptions& options) {
  LOCKSTEP_ASSIGN(const checkpoint::pt::Weights weights, checkpoint::pt::weights_at(path, key));
  auto loaded = checkpoint::load_module(module, weights.tensors, options.strict);
  if (loaded.ok()) return loaded;
  const Error& error = loaded.error();
  return in_file(path, {error.kind, weights.of_module + error.message + weights.remark});
}

Status load_state_dict(Optimizer& optimizer, const std::string& path, const std::string& key) {
  LOCKSTEP_ASSIGN(const Value dict, checkpoint::pt::value_at(path, key));
  Importer in;
  const auto state = checkpoint::pt::optimizer_state(in, dict);
  if (!state.ok()) return in_file(path, state.error());
  const Status loaded = optimizer.load_state_dict(*state);
  if (loaded.ok()) return {};
  return in_file(path, loaded.error());
}

}  // namespace lockstep
