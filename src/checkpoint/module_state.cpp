#include "checkpoint/module_state.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <map>

#include "base/env.h"
#include "base/errors.h"
#include "base/guard.h"
#include "checkpoint/file_reader.h"
#include "checkpoint/names.h"
#include "checkpoint/shared_storage.h"
#include "checkpoint/tensors.h"
#include "checkpoint/user_file.h"

namespace lockstep::checkpoint {
namespace {

TensorInfo own_info(const std::string& name, const at::Tensor& tensor) {
  TensorInfo info{name, dtype_of(tensor.scalar_type()).value_or(DType::kOpaque), {}};
  if (!info.readable()) info.other = c10::toString(tensor.scalar_type());
  for (const std::int64_t n : tensor.sizes()) info.shape.push_back(static_cast<std::uint64_t>(n));
  return info;
}

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  names.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

// One load: which of the file's tensors goes where.
class Plan {
 public:
  Plan(const torch::nn::Module& module, const std::vector<GivenTensor>& given)
      : own_(module_tensors(module)), given_(given) {
    std::vector<std::string> names;
    names.reserve(given.size());
    for (const GivenTensor& each : given) names.push_back(each.info.name);
    matching_ = match_names(names_of(own_), names);
    find_missing();
  }

  IncompatibleKeys incompatible() const {
    IncompatibleKeys keys;
    for (const std::size_t i : missing_) keys.missing_keys.push_back(own_[i].first);
    for (const std::size_t i : matching_.rest) keys.unexpected_keys.push_back(given_[i].info.name);
    return keys;
  }

  Status check(bool strict) const {
    for (std::size_t i = 0; i < own_.size(); ++i)
      if (const auto from = matching_.source[i]; from && !given_[*from].instead.empty())
        return bad_data(quote(given_[*from].info.name) + ": " + given_[*from].instead +
                        " stands where a tensor is due");
    const auto differs = differences(strict);
    if (differs) return bad_data("the state_dict is not of this model: " + *differs);
    for (const auto from : matching_.source)
      if (from && !given_[*from].tensor.defined()) return unreadable(given_[*from].info);
    if (!strict || matching_.rest.empty()) return {};
    return bad_data("the state_dict has " + quote(given_[matching_.rest[0]].info.name) +
                    " besides, which is not known here");
  }

  void copy() const {
    for (std::size_t i = 0; i < own_.size(); ++i)
      if (const auto from = matching_.source[i])
        at::Tensor(own_[i].second).copy_(given_[*from].tensor);
  }

 private:
  // What is neither there, nor filled together with what is, nor a counter.
  void find_missing() {
    std::map<const void*, std::vector<std::size_t>> there;
    for (std::size_t i = 0; i < own_.size(); ++i)
      if (matching_.source[i]) there[memory_of(own_[i].second)].push_back(i);
    for (std::size_t i = 0; i < own_.size(); ++i) {
      if (matching_.source[i] || own_[i].first.ends_with(kCounter)) continue;
      const auto& others = there[memory_of(own_[i].second)];
      if (std::ranges::none_of(others, [&](std::size_t other) {
            return covers(own_[other].second, own_[i].second);
          }))
        missing_.push_back(i);
    }
  }

  // Under the module's names, for what it has.
  std::optional<std::string> differences(bool strict) const {
    Header header;
    std::vector<NamedTarget> targets;
    for (std::size_t i = 0; i < own_.size(); ++i) {
      const auto& [name, tensor] = own_[i];
      const auto from = matching_.source[i];
      if (from) header.entries.push_back({given_[*from].info});
      if (from) header.entries.back().info.name = name;
      if (from) targets.push_back({own_info(name, tensor), {}});
    }
    if (!strict) return difference(header, targets);
    for (const std::size_t i : missing_)
      targets.push_back({own_info(own_[i].first, own_[i].second), {}});
    for (const std::size_t i : matching_.rest) header.entries.push_back({given_[i].info});
    return difference(header, targets);
  }

  const NamedTensors own_;
  const std::vector<GivenTensor>& given_;
  Matching matching_;
  std::vector<std::size_t> missing_;  // of own_
};

void visit(const torch::nn::Module& module, const std::string& prefix, const OfModule& call) {
  call(prefix, module);
  for (const auto& child : module.named_children())
    visit(*child.value(), prefix + child.key() + ".", call);
}

}  // namespace

void for_each_module(const torch::nn::Module& module, const OfModule& call) {
  visit(module, "", call);
}

NamedTensors module_tensors(const torch::nn::Module& module) {
  NamedTensors tensors;
  for_each_module(module, [&](const std::string& prefix, const torch::nn::Module& each) {
    for (const auto& item : each.named_parameters(false))
      tensors.emplace_back(prefix + item.key(), item.value());
    for (const auto& item : each.named_buffers(false))
      tensors.emplace_back(prefix + item.key(), item.value());
  });
  return tensors;
}

Result<IncompatibleKeys> load_module(torch::nn::Module& module,
                                     const std::vector<GivenTensor>& given, bool strict) {
  return guarded("loading a state_dict", ErrorKind::kInternal, [&]() -> Result<IncompatibleKeys> {
    const Plan plan(module, given);
    LOCKSTEP_TRY(plan.check(strict));
    const at::NoGradGuard no_grad;
    plan.copy();
    return strict ? IncompatibleKeys{} : plan.incompatible();
  });
}

}  // namespace lockstep::checkpoint

namespace lockstep {

Status save_module_safetensors(const std::string& path, const torch::nn::Module& module,
                               const std::map<std::string, std::string>& metadata) {
  return guarded("saving tensors", ErrorKind::kInternal, [&]() -> Status {
    LOCKSTEP_ASSIGN(const std::string place, checkpoint::place_of_user_file(posix_env(), path));
    checkpoint::Deduplicated kept =
        checkpoint::one_name_per_storage(checkpoint::module_tensors(module));
    for (const auto& [key, value] : metadata) kept.aliases[key] = value;
    const CheckpointPart part{"tensors", std::move(kept.tensors)};
    LOCKSTEP_ASSIGN(const checkpoint::Sources sources, checkpoint::Sources::of({&part, 1}));
    const auto& tensors = sources.parts().front().tensors;
    std::vector<checkpoint::TensorInfo> infos;
    infos.reserve(tensors.size());
    for (const checkpoint::NamedBytes& tensor : tensors) infos.push_back(tensor.info);
    LOCKSTEP_ASSIGN(const auto layout, checkpoint::make_python_layout(infos, kept.aliases));
    return write_atomically(posix_env(), place, [&](File& file) -> Status {
      LOCKSTEP_TRY(file.append(std::as_bytes(std::span(layout.text))));
      for (const std::size_t i : layout.source) LOCKSTEP_TRY(file.append(tensors[i].bytes));
      return {};
    });
  });
}

}  // namespace lockstep
