#include "train/let_go.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <unordered_map>

namespace lockstep::training {
namespace {

// A view that somebody else has keeps its memory in use.
bool held_elsewhere(const at::Tensor& tensor) {
  return tensor.use_count() > 1 || (tensor.has_storage() && tensor.storage().use_count() > 1);
}

std::size_t holders(const at::Tensor& tensor) { return tensor.use_count(); }
std::size_t holders(const std::weak_ptr<torch::nn::Module>& module) {
  return static_cast<std::size_t>(module.use_count());
}

// The state's and its optimizers' hold on each tensor, so many times.
std::unordered_map<const at::TensorImpl*, std::size_t> held_by_state(const TrainState& state) {
  std::unordered_map<const at::TensorImpl*, std::size_t> held;
  for (const auto* tensors :
       {&state.parameters(), &state.leaves(), &state.buffers(), &state.other_tensors()})
    for (const TrainState::Named& named : *tensors) ++held[named.tensor.unsafeGetTensorImpl()];
  for (const Optimizer* optimizer : state.optimizers())
    for (const at::Tensor& parameter : optimizer->parameters())
      ++held[parameter.unsafeGetTensorImpl()];
  return held;
}

// Of what only others hold now; once.
template <class Parts>
std::optional<std::string> take_let_go(Parts& parts) {
  const auto found = std::ranges::find_if(
      parts, [](const auto& held) { return holders(held.part) <= held.others; });
  if (found == parts.end()) return std::nullopt;
  std::string name = found->name;
  parts.erase(found);
  return name;
}

std::string assigned_anew(const std::string& what) {
  return "the program has let go of " + what +
         ", which nothing but the module's registration holds any more: after 'net->weight = …' or "
         "'net->fc = …' the member is another one, which no checkpoint, no newcomer and no "
         "optimizer has. Write in place, without gradients (net->weight.copy_(…), "
         "lockstep::load_state_dict()); another module is put in place before the state is made";
}

}  // namespace

LetGo::LetGo(const TrainState& state) : state_(state) {
  const auto held = held_by_state(state);
  for (const auto* tensors : {&state.leaves(), &state.buffers()})
    for (const auto& [name, tensor] : *tensors) {
      const std::size_t registered = 1 + held.at(tensor.unsafeGetTensorImpl());
      if (holders(tensor) <= registered) continue;
      const std::size_t programs = holders(tensor) - registered;
      tensors_.push_back({name, tensor, programs});
    }
  const std::vector<TrainState::InModel> names = state.in_model();  // modules come first
  const auto modules = state.modules();
  for (std::size_t i = 0; i < modules.size(); ++i) add(names[i].name, *modules[i]);
}

void LetGo::add(const std::string& name, const torch::nn::Module& module) {
  for (const auto& child : module.named_children()) {
    const std::string whole = name + "." + child.key();
    const Module weak(child.value());
    // Its parent's registration, and the copy at hand.
    if (const std::size_t all = holders(weak); all > 2) modules_.push_back({whole, weak, all - 2});
    add(whole, *child.value());
  }
}

void LetGo::begin() {
  for (auto& held : tensors_) held.others = holders(held.part) - held.others;
  for (auto& held : modules_) held.others = holders(held.part) - held.others;
  for (std::size_t i = 0; i < state_.other_tensors().size(); ++i)
    if (held_elsewhere(state_.other_tensors()[i].tensor)) held_.push_back(i);
}

std::optional<std::string> LetGo::next() {
  if (const auto name = take_let_go(tensors_))
    return assigned_anew("'" + *name + "', a parameter or buffer of the train state");
  if (const auto name = take_let_go(modules_))
    return assigned_anew("'" + *name + "', a module of the train state");
  const auto& tensors = state_.other_tensors();
  const auto found = std::ranges::find_if(
      held_, [&](std::size_t i) { return !held_elsewhere(tensors[i].tensor); });
  if (found == held_.end()) return std::nullopt;
  const std::string name = tensors[*found].name;
  held_.erase(found);
  return "the program has let go of '" + name +
         "', a tensor of the train state, which nothing but the state holds any more: after 'x = "
         "…' (torch::cat(), x + 1) x is another tensor, which no checkpoint and no newcomer has. "
         "Write in place (x.copy_(…), x.add_(1)); one that grows is made with room, and a number "
         "or a mask in the state says how much of it is in use";
}

}  // namespace lockstep::training
