#include "train/step_memory.h"

#include <ATen/Functions.h>

#include <cmath>

namespace lockstep::training {

StepMemory::StepMemory(std::int64_t updates)
    : updates_(updates), tensor_(at::zeros({updates, kPlaces}, at::kDouble)) {}

double& StepMemory::at(std::int64_t update, Place place) const {
  return tensor_.mutable_data_ptr<double>()[update * kPlaces + place];
}

void StepMemory::add(std::int64_t number, const Update& update) {
  at(number, kLoss) = update.loss;
  at(number, kChanged) = update.changed ? 1 : 0;
  at(number, kEndsRun) = update.ends_run ? 1 : 0;
  at(number, kNotFinite) = update.not_finite ? 1 : 0;
}

bool StepMemory::of_all(Place place) const {
  for (std::int64_t u = 0; u < updates_; ++u)
    if (at(u, place) != 0) return true;
  return false;
}

// A share's own NaN is a loss that is not finite.
std::vector<std::optional<double>> StepMemory::losses() const {
  std::vector<std::optional<double>> losses;
  for (std::int64_t u = 0; u < updates_; ++u) {
    const bool none = std::isnan(at(u, kLoss)) && !was_not_finite(u);
    losses.push_back(none ? std::nullopt : std::optional(at(u, kLoss)));
  }
  return losses;
}

}  // namespace lockstep::training
