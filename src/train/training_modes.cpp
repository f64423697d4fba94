#include "train/training_modes.h"

#include <torch/nn/module.h>

#include "transaction/share_comparison.h"

namespace lockstep::training {

// A module itself is the program's, which keeps it; what is in it may be taken out.
TrainingModes::TrainingModes(const TrainState& state) {
  const std::vector<TrainState::InModel> names = state.in_model();  // modules come first
  const auto modules = state.modules();
  for (std::size_t i = 0; i < modules.size(); ++i)
    add(names[i].name, Module(modules[i], [](const torch::nn::Module*) {}));
  modes_.resize((modules_.size() + 63) / 64);
}

void TrainingModes::add(const std::string& name, const Module& module) {
  modules_.emplace_back(name, module);
  for (const auto& child : module->named_children()) add(name + "." + child.key(), child.value());
}

void TrainingModes::read() {
  modes_.assign(modes_.size(), 0);
  for (std::size_t i = 0; i < modules_.size(); ++i)
    if (modules_[i].second->is_training()) modes_[i / 64] |= std::uint64_t{1} << i % 64;
}

void TrainingModes::write(std::span<coord::Word> words) const {
  for (std::size_t i = 0; i < modes_.size(); ++i)
    words[i].store(modes_[i], std::memory_order_relaxed);
}

std::string TrainingModes::module_in_words(std::size_t number) const {
  return "'" + modules_[number].first + "'";
}

std::optional<std::string> TrainingModes::difference(const transaction::Participant& participant,
                                                     std::uint32_t virtual_workers) const {
  const transaction::Words first = participant.notes(0).training();
  for (std::uint32_t v = 1; v < virtual_workers; ++v) {
    const auto differs = transaction::first_mode(first, participant.notes(v).training());
    if (!differs) continue;
    const auto& [module, first_trains] = *differs;
    const auto worker = [&, trains = first_trains](bool wanted) {
      return "the worker of virtual worker " + std::to_string(wanted == trains ? 0 : v);
    };
    return module_in_words(module) + " is in eval() in " + worker(false) + ", and trains in " +
           worker(true);
  }
  return std::nullopt;
}

}  // namespace lockstep::training
