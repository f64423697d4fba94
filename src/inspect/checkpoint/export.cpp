// `lockstep checkpoint export`.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "checkpoint/module_in.h"
#include "checkpoint/pt/writer.h"
#include "inspect/arguments.h"
#include "inspect/checkpoint/bundle.h"
#include "inspect/checkpoint/verbs.h"
#include "inspect/files.h"
#include "inspect/text.h"

namespace lockstep::inspect {
namespace {

namespace pt = checkpoint::pt;

std::vector<std::uint64_t> contiguous_strides(const std::vector<std::uint64_t>& shape) {
  std::vector<std::uint64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<std::uint64_t>(shape[i], 1);
  return strides;
}

// Those that several tensors of the part lie in stay shared. A file of ours holds one dtype for a
// storage: where there are more each tensor gets a copy.
std::set<const pt::Storage*> shared_storages(const Part& part) {
  std::map<const pt::Storage*, std::vector<checkpoint::DType>> views;
  for (const Tensor& tensor : part.tensors)
    if (tensor.view != nullptr) views[tensor.view->storage.get()].push_back(tensor.view->dtype);
  std::set<const pt::Storage*> shared;
  for (const auto& [storage, dtypes] : views)
    if (dtypes.size() > 1 && std::ranges::count(dtypes, dtypes[0]) == std::ssize(dtypes))
      shared.insert(storage);
  return shared;
}

Result<pickle::Value> value_of(const Tensor& tensor) {
  if (!tensor.info.readable()) return unreadable(tensor.info);
  LOCKSTEP_ASSIGN(const Bytes bytes, tensor.load());
  auto value = std::make_shared<pt::TensorValue>();
  LOCKSTEP_ASSIGN(value->storage, pt::allocate(bytes.size()));
  if (!bytes.empty()) std::memcpy(value->storage->owner.get(), bytes.data(), bytes.size());
  value->dtype = tensor.info.dtype;
  value->shape = tensor.info.shape;
  value->strides = contiguous_strides(tensor.info.shape);
  return pickle::Value(std::move(value));
}

std::vector<checkpoint::TensorInfo> infos_of(const Bundle& bundle, const std::string& part) {
  std::vector<checkpoint::TensorInfo> infos;
  for (const Part& each : bundle.parts)
    for (const Tensor& tensor : each.tensors)
      if (each.name == part) infos.push_back(tensor.info);
  return infos;
}

// Under its own names.
Result<Part> module_of(const Bundle& bundle, const std::string& name) {
  const auto wrong = [&](const std::string& what) {
    return Error{ErrorKind::kUsage, "--module: '" + bundle.path + "': " + what};
  };
  if (!bundle.manifest) return wrong("it is no checkpoint, which alone tells modules apart");
  const auto place = checkpoint::find_module(*bundle.manifest, name, infos_of(bundle, "model"));
  if (!place.ok()) return wrong(place.error().message);
  if (!*place)
    return wrong(
        "it has no map of modules (it was written before there were any, or by "
        "save_checkpoint()), no part " +
        checkpoint::quote(name) + " and no tensor that begins with " +
        checkpoint::quote(name + ".") + "; without --module all weights are exported");
  LOCKSTEP_ASSIGN(const Part* const whole, find_part(bundle, (*place)->part));
  Part part{name, {}};
  for (std::size_t i = 0; i < whole->tensors.size(); ++i) {
    if (!(*place)->has(i)) continue;
    part.tensors.push_back(whole->tensors[i]);
    part.tensors.back().info.name.erase(0, (*place)->prefix.size());
  }
  return part;
}

Result<Part> part_of(const Bundle& bundle, const Arguments& arguments) {
  const auto part = arguments.value("--part"), module = arguments.value("--module");
  if (part && module)
    return Error{ErrorKind::kUsage,
                 "--part and --module: a module is of the part 'model'; leave --part out"};
  if (module) return module_of(bundle, *module);
  LOCKSTEP_ASSIGN(const Part* const found, find_part(bundle, part.value_or("")));
  return *found;
}

}  // namespace

Result<Answer> export_checkpoint(Env& env, Words words) {
  const Syntax syntax{"lockstep checkpoint export CKPT OUT.pt [--module NAME | --part NAME]",
                      {},
                      {"--module", "--part"},
                      2,
                      2};
  LOCKSTEP_ASSIGN(const Arguments arguments, parse(words, syntax));
  const std::string &from = arguments.paths[0], &to = arguments.paths[1];
  if (!to.ends_with(".pt") && !to.ends_with(".pth"))
    return Error{ErrorKind::kUsage,
                 "'" + to + "' does not end with .pt or .pth; usage: " + syntax.usage};
  LOCKSTEP_TRY(check_not_read(env, to, std::span(&from, 1)));
  LOCKSTEP_ASSIGN(const Bundle bundle, open_bundle(env, from));
  LOCKSTEP_ASSIGN(const Part part, part_of(bundle, arguments));
  const std::set<const pt::Storage*> shared = shared_storages(part);
  pickle::Pairs pairs;
  for (const Tensor& tensor : part.tensors) {
    const bool keep = tensor.view != nullptr && shared.contains(tensor.view->storage.get());
    auto value = keep ? Result<pickle::Value>(tensor.view) : value_of(tensor);
    if (!value.ok()) return with_path(bundle.path, value.error());
    pairs.emplace_back(pickle::Value(tensor.info.name), *std::move(value));
  }
  LOCKSTEP_TRY(pt::write(env, to, pickle::Value::ordered_dict(std::move(pairs))));
  return Answer{to + ": " + counted(part.tensors.size(), "tensor") + " of " + bundle.path + "\n"};
}

}  // namespace lockstep::inspect
