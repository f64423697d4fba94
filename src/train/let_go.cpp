#include "train/let_go.h"

#include <algorithm>

namespace lockstep::training {
namespace {

// A view that somebody else has keeps its memory in use.
bool held_elsewhere(const at::Tensor& tensor) {
  return tensor.use_count() > 1 || (tensor.has_storage() && tensor.storage().use_count() > 1);
}

}  // namespace

LetGo::LetGo(const TrainState& state) : state_(state) {
  for (std::size_t i = 0; i < state.other_tensors().size(); ++i)
    if (held_elsewhere(state.other_tensors()[i].tensor)) held_.push_back(i);
}

std::optional<std::string> LetGo::next() {
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
