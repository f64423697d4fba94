#include "train/state_kept.h"

#include <cstddef>

namespace lockstep::training {
namespace {

std::uint32_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : static_cast<std::uint32_t>(tensor._version());
}

// In the order of TrainState::hashes(), buffers left out.
std::vector<std::uint32_t> versions_of(const TrainState& state) {
  std::vector<std::uint32_t> versions;
  for (const auto* tensors : {&state.parameters(), &state.other_tensors()})
    for (const TrainState::Named& named : *tensors) versions.push_back(version_of(named.tensor));
  // Half weights, behind their masters.
  if (!state.master_weights().empty())
    for (const TrainState::Named& leaf : state.leaves())
      versions.push_back(version_of(leaf.tensor));
  return versions;
}

// Of the program's. What a closure freezes, of which the library has a text, is undone behind it.
std::vector<std::string> own_texts(const TrainState& state) {
  std::vector<std::string> texts;
  for (const TrainState::Text& text : state.texts())
    texts.push_back(text.hashed && !text.name.starts_with("lockstep.") ? text.save() : "");
  return texts;
}

}  // namespace

StateKept::StateKept(const TrainState& state, bool by_content)
    : state_(state), versions_(versions_of(state)) {
  if (!by_content) return;
  hashes_ = state.hashes();
  texts_ = own_texts(state);
}

std::string StateKept::changed() const {
  const std::size_t parameters = state_.parameters().size(), buffers = state_.buffers().size();
  const std::size_t tensors = state_.tensor_count();
  const std::vector<std::uint32_t> versions = versions_of(state_);
  // Half weights have no hashes: their masters have.
  const std::size_t hashed = hashes_.empty() ? 0 : tensors - buffers;
  for (std::size_t i = hashed; i < versions.size(); ++i) {
    if (versions[i] == versions_[i]) continue;
    const std::size_t number = i < parameters ? i : i + buffers;
    return state_.tensor_in_words(number < tensors ? number : number - tensors);
  }
  if (hashes_.empty()) return "";
  const std::vector<std::uint64_t> hashes = state_.hashes();
  for (std::size_t i = 0; i < hashes.size(); ++i)
    if (hashes[i] != hashes_[i] && (i < parameters || i >= parameters + buffers))
      return state_.tensor_in_words(i);
  const std::vector<std::string> texts = own_texts(state_);
  for (std::size_t i = 0; i < texts.size(); ++i)
    if (texts[i] != texts_[i]) return "the text '" + state_.texts()[i].name + "'";
  return "";
}

bool StateKept::put_back() const { return !hashes_.empty() && versions_of(state_) != versions_; }

}  // namespace lockstep::training
