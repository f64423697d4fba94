// What a train state's modules and tensors were when a run began, and whether they still are.
#include <torch/nn/module.h>

#include <algorithm>
#include <sstream>

#include "lockstep/state.h"

namespace lockstep {

// Without their whole names, which are most of what named_parameters() costs.
void TrainState::append(const torch::nn::Module& module, Wanted& parameters) {
  for (const auto& item : module.named_parameters(/*recurse=*/false))
    parameters.emplace_back(item.value().unsafeGetTensorImpl(), item.value().requires_grad());
  for (const auto& child : module.named_children()) append(*child.value(), parameters);
}

std::string TrainState::difference(const Added& added) {
  for (const auto& item : added.module->named_parameters()) {
    const auto* const tensor = item.value().unsafeGetTensorImpl();
    if (std::ranges::count(added.parameters, tensor, &Wanted::value_type::first) == 0)
      return "'" + item.key() + "' was added";
  }
  return "a parameter was taken out";
}

Error TrainState::changed(const Added& added, const std::string& what) {
  return {ErrorKind::kUsage,
          "'" + added.name + "' has changed since it was wrapped or added to the state: " + what +
              ". Do that before, or make the DistributedDataParallel, Step or Trainer and its "
              "state anew"};
}

Status TrainState::check_modules() const {
  for (const Added& added : modules_) {
    Wanted now;
    append(*added.module, now);
    if (!std::ranges::equal(now, added.parameters, {}, &Wanted::value_type::first,
                            &Wanted::value_type::first))
      return changed(added, difference(added));
  }
  return {};
}

Status TrainState::check_frozen() const {
  for (const Added& added : modules_)
    for (const auto& [tensor, wanted] : added.parameters)
      if (!wanted && tensor->requires_grad())
        for (const auto& item : added.module->named_parameters())
          if (item.value().unsafeGetTensorImpl() == tensor)
            return changed(added, "'" + item.key() + "' was unfrozen");
  return {};
}

TrainState::Place TrainState::place_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr(), tensor.sizes().vec(), tensor.strides().vec(),
          tensor.scalar_type()};
}

bool TrainState::is_at(const at::Tensor& tensor, const Place& place) {
  return tensor.const_data_ptr() == place.data && tensor.scalar_type() == place.dtype &&
         tensor.sizes() == place.sizes && tensor.strides() == place.strides;
}

void TrainState::keep_places() {
  places_.clear();
  for (const auto* tensors : {&parameters_, &buffers_, &other_tensors_, &leaves_})
    for (const Named& named : *tensors) places_.push_back(place_of(named.tensor));
}

Status TrainState::check_places() const {
  if (places_.empty()) return {};
  std::size_t number = 0;
  for (const auto* tensors : {&parameters_, &buffers_, &other_tensors_, &leaves_})
    for (const Named& named : *tensors)
      if (const Place& before = places_[number++]; !is_at(named.tensor, before))
        return moved(
            tensors == &leaves_ ? "the parameter '" + named.name + "'" : part_in_words(number - 1),
            named.tensor, before);
  return {};
}

Error TrainState::moved(const std::string& what, const at::Tensor& tensor, const Place& before) {
  std::ostringstream shapes;
  shapes << at::IntArrayRef(before.sizes) << ' ' << before.dtype << " before, " << tensor.sizes()
         << ' ' << tensor.scalar_type() << " now";
  return {ErrorKind::kUsage,
          what + " has been given other memory (" + shapes.str() +
              ") by set_data(), set_(), resize_() or the like: a tensor of the train state keeps "
              "its place and shape, on which sums, checkpoints and newcomers stand. Copy values "
              "into it by copy_() under NoGradGuard, or by lockstep::load_state_dict(); one that "
              "grows is made with room, and a mask says what of it is in use "
              "(docs/guide/own_loop.md, \"Tensors that grow\")"};
}

std::vector<TrainState::InModel> TrainState::in_model() const {
  std::vector<InModel> entries;
  for (const Added& added : modules_)
    entries.push_back({added.name, added.prefix, state_dict(*added.module).size()});
  const std::vector<Named> own = own_parameters();
  std::size_t begin = 0;
  for (const auto& [name, end] : groups_) {
    std::size_t updated = 0;
    for (std::size_t i = begin; i < end; ++i)
      updated += static_cast<std::size_t>(std::ranges::count_if(
          own, [&](const Named& named) { return named.tensor.is_same(other_tensors_[i].tensor); }));
    begin = end;
    if (updated > 0) entries.push_back({name, name + ".", updated});
  }
  return entries;
}

}  // namespace lockstep
