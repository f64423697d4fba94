#include "lockstep/state.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string_view>
#include <unordered_set>

#include "base/hash.h"
#include "optim/dense.h"
#include "optim/tensor_bytes.h"

namespace lockstep {
namespace {

using optim::bytes_of;

void hash_sorted(Sha256& hash, std::vector<TrainState::Named> tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  for (const auto& named : tensors) {
    hash.update(named.name);
    hash.update(bytes_of(named.tensor.detach().contiguous()));
  }
}

// Of the program's. The library's own follow from the rest, or are undone behind a closure.
bool is_compared(const TrainState::Text& text) {
  return text.hashed && !text.name.starts_with("lockstep.");
}

// As state_dict() of torch/nn/modules/module.py goes through them.
void collect(const torch::nn::Module& module, const std::string& prefix, NamedTensors& tensors) {
  for (const auto& item : module.named_parameters(/*recurse=*/false))
    tensors.emplace_back(prefix + item.key(), item.value());
  for (const auto& item : module.named_buffers(/*recurse=*/false))
    tensors.emplace_back(prefix + item.key(), item.value());
  for (const auto& child : module.named_children())
    collect(*child.value(), prefix + child.key() + ".", tensors);
}

}  // namespace

NamedTensors state_dict(const torch::nn::Module& module) {
  NamedTensors tensors;
  collect(module, "", tensors);
  return tensors;
}

Status TrainState::claim(const std::string& name) {
  if (carried_for_ != 0)
    return Error{ErrorKind::kUsage,
                 "the train state takes no '" + name +
                     "' any more: the run was opened, and a newcomer could not know of it. Add it "
                     "before Step::open() or Trainer::fit()"};
  if (std::find(names_.begin(), names_.end(), name) != names_.end())
    return Error{ErrorKind::kUsage,
                 "the train state has two parts named '" + name + "'; give each its own name"};
  names_.push_back(name);
  return {};
}

Error TrainState::holds_nothing(const std::string& name) {
  return {ErrorKind::kUsage, "'" + name +
                                 "' is a module holder or a pointer that is empty (nullptr): "
                                 "make the module before it is added to the train state"};
}

std::vector<const torch::nn::Module*> TrainState::modules() const {
  std::vector<const torch::nn::Module*> modules;
  for (const Added& added : modules_) modules.push_back(added.module);
  return modules;
}

Status TrainState::add(const std::string& name, torch::nn::Module& module) {
  LOCKSTEP_TRY(claim(name));
  const std::string prefix = parameters_.empty() && buffers_.empty() ? "" : name + ".";
  std::vector<Named> parameters, buffers;
  for (const auto& item : module.named_parameters())
    parameters.push_back({prefix + item.key(), item.value()});
  for (const auto& item : module.named_buffers())
    buffers.push_back({prefix + item.key(), item.value()});
  std::vector<std::string> order;
  for (const auto& [key, _] : state_dict(module)) {
    order.push_back(prefix + key);
    if (std::ranges::count(order_, order.back()) != 0)
      return Error{ErrorKind::kUsage, "the train state has two tensors named '" + order.back() +
                                          "'; give '" + name + "' another name"};
  }
  order_.insert(order_.end(), order.begin(), order.end());
  parameters_.insert(parameters_.end(), parameters.begin(), parameters.end());
  leaves_.insert(leaves_.end(), parameters.begin(), parameters.end());
  buffers_.insert(buffers_.end(), buffers.begin(), buffers.end());
  append(module, modules_.emplace_back(Added{name, prefix, &module, {}}).parameters);
  return {};
}

namespace {

// It would be saved, copied and stepped twice.
Status twice(const std::string& name, const char* what) {
  return Error{ErrorKind::kUsage, "'" + name + "' is a" + what +
                                      " that the train state has already, under another name: add "
                                      "(Trainer::schedule()) each once"};
}

}  // namespace

Status TrainState::add(const std::string& name, Optimizer& optimizer) {
  if (std::ranges::count(optimizers_, &optimizer) != 0) return twice(name, "n optimizer");
  LOCKSTEP_TRY(claim(name));
  const std::string prefix = optimizers_.empty() ? "" : name + ".";
  for (auto& [key, tensor] : optimizer.state()) other_tensors_.push_back({prefix + key, tensor});
  optimizers_.push_back(&optimizer);
  optimizer_names_.push_back(name);
  return {};
}

Status TrainState::add(const std::string& name, LRScheduler& scheduler) {
  if (std::ranges::count(schedulers_, &scheduler) != 0) return twice(name, " scheduler");
  LOCKSTEP_TRY(add(name, scheduler.state()));
  schedulers_.push_back(&scheduler);
  return {};
}

Status TrainState::add(const std::string& name, GradScaler& scaler) {
  if (scaler_ != nullptr)
    return Error{ErrorKind::kUsage, "the train state has a scaler already; '" + name +
                                        "' would be a second, and a step has one"};
  LOCKSTEP_TRY(add(name, scaler.state()));
  scaler_ = &scaler;
  return {};
}

Status TrainState::add(const std::string& name, MasterWeights& masters) {
  LOCKSTEP_TRY(claim(name));
  for (const MasterWeights::Pair& pair : masters.pairs()) {
    bool known = false;
    for (Named& named : parameters_) {
      if (!named.tensor.is_same(pair.model)) continue;
      named.tensor = pair.master;
      known = true;
    }
    if (!known)
      return Error{ErrorKind::kUsage,
                   "the train state does not have the model of the master "
                   "weights '" +
                       name + "': add the model first, and these once"};
  }
  master_weights_.push_back(&masters);
  return {};
}

Status TrainState::add(const std::string& name, const NamedTensors& tensors) {
  LOCKSTEP_TRY(claim(name));
  for (const auto& [key, tensor] : tensors) other_tensors_.push_back({name + "." + key, tensor});
  groups_.emplace_back(name, other_tensors_.size());
  return {};
}

Status TrainState::add(Text text) {
  LOCKSTEP_TRY(claim(text.name));
  texts_.push_back(std::move(text));
  return {};
}

std::vector<TrainState::Named> TrainState::others(bool updated) const {
  std::unordered_set<const c10::TensorImpl*> by_optimizers;
  for (const Optimizer* optimizer : optimizers_)
    for (const at::Tensor& p : optimizer->parameters())
      by_optimizers.insert(p.unsafeGetTensorImpl());
  std::vector<Named> found;
  for (const Named& named : other_tensors_)
    if (by_optimizers.contains(named.tensor.unsafeGetTensorImpl()) == updated)
      found.push_back(named);
  return found;
}

std::vector<TrainState::Named> TrainState::own_parameters() const { return others(true); }
std::vector<TrainState::Named> TrainState::not_of_model() const { return others(false); }

std::vector<TrainState::Named> TrainState::model() const {
  std::map<std::string_view, const Named*> by_name;
  for (const auto* tensors : {&parameters_, &buffers_})
    for (const Named& named : *tensors) by_name[named.name] = &named;
  std::vector<Named> all;
  for (const std::string& name : order_) all.push_back(*by_name.at(name));
  for (Named& named : own_parameters()) all.push_back(std::move(named));
  return all;
}

std::string TrainState::weights_sha256() const {
  Sha256 hash;
  hash_sorted(hash, model());
  return hash.hex();
}

std::string TrainState::sha256() const {
  Sha256 hash;
  hash_sorted(hash, model());
  hash_sorted(hash, not_of_model());
  for (const Text& text : texts_) {
    if (!text.hashed) continue;
    const std::string content = text.save();
    if (text.optional && content.empty()) continue;
    hash.update(text.name);
    hash.update(content);
  }
  return hash.hex();
}

std::size_t TrainState::tensor_count() const {
  return parameters_.size() + buffers_.size() + other_tensors_.size();
}

std::size_t TrainState::part_count() const {
  return tensor_count() +
         static_cast<std::size_t>(std::count_if(texts_.begin(), texts_.end(), is_compared));
}

std::vector<std::uint64_t> TrainState::hashes() const {
  std::vector<std::uint64_t> hashes;
  for (const auto* tensors : {&parameters_, &buffers_, &other_tensors_})
    for (const Named& named : *tensors)
      hashes.push_back(lockstep::xxh3(bytes_of(named.tensor.detach().contiguous())));
  for (const Text& text : texts_) {
    if (!is_compared(text)) continue;
    const std::string content = text.save();
    hashes.push_back(lockstep::xxh3(std::as_bytes(std::span(content))));
  }
  return hashes;
}

std::uint64_t TrainState::xxh3() const {
  const std::vector<std::uint64_t> all = hashes();
  return lockstep::xxh3(std::as_bytes(std::span(all)));
}

std::string TrainState::part_in_words(std::size_t number) const {
  if (number < parameters_.size()) return "the parameter '" + parameters_[number].name + "'";
  number -= parameters_.size();
  if (number < buffers_.size()) return "the buffer '" + buffers_[number].name + "'";
  number -= buffers_.size();
  if (number < other_tensors_.size())
    return "the tensor '" + other_tensors_[number].name +
           "' (of an optimizer, a schedule, or the program's own)";
  number -= other_tensors_.size();
  for (const Text& text : texts_)
    if (is_compared(text) && number-- == 0) return "the text '" + text.name + "'";
  return "a text";
}

std::string TrainState::signature() const {
  std::ostringstream lines;
  const std::vector<Named> own = own_parameters();
  for (const auto* tensors : {&parameters_, &buffers_, &own})
    for (const Named& named : *tensors) {
      lines << named.name << ' ' << named.tensor.sizes() << ' ' << named.tensor.scalar_type();
      if (!named.tensor.is_contiguous()) lines << " strides " << named.tensor.strides();
      lines << '\n';
    }
  return lines.str();
}

std::string TrainState::frozen() const {
  std::string lines;
  const std::vector<Named> own = own_parameters();
  for (const auto* tensors : {&leaves_, &own})
    for (const Named& leaf : *tensors)
      if (!leaf.tensor.requires_grad()) lines += leaf.name + " is frozen (requires_grad false)\n";
  return lines;
}

Status TrainState::check_dense() const {
  for (const Added& added : modules_) LOCKSTEP_TRY(optim::check_dense(*added.module, added.prefix));
  return {};
}

}  // namespace lockstep
