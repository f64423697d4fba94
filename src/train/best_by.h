// What an epoch is the best by (Trainer::best()): a figure of the run's, or a sum of the program's.
#pragma once

#include <string>
#include <utility>

#include "lockstep/trainer.h"

namespace lockstep::training {

struct BestBy {
  BestBy(BestOf figure = BestOf::kNothing) : of(figure) {}  // NOLINT(google-explicit-constructor)
  BestBy(std::string sum, BestMode wanted) : name(std::move(sum)), mode(wanted) {}

  BestOf of = BestOf::kNothing;
  std::string name;  // of a sum, whose mean it is; empty: `of`
  BestMode mode = BestMode::kMin;

  bool nothing() const { return of == BestOf::kNothing && name.empty(); }
  bool greatest() const { return name.empty() ? of == BestOf::kAccuracy : mode == BestMode::kMax; }
};

}  // namespace lockstep::training
