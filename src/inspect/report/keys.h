// The figures of a run that JSON has under the names of struct Run.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "inspect/report/run.h"

namespace lockstep::inspect {

struct FigureKey {
  const char* name;
  std::optional<double> Run::*figure;
};
inline constexpr std::array<FigureKey, 12> kFigureKeys{{
    {"workers", &Run::workers},
    {"learning_rate", &Run::learning_rate},
    {"global_batch", &Run::global_batch},
    {"samples_per_epoch", &Run::samples_per_epoch},
    {"steps_per_epoch", &Run::steps_per_epoch},
    {"epoch_time_s", &Run::epoch_time_s},
    {"epochs_run", &Run::epochs_run},
    {"budget_s", &Run::budget_s},
    {"best_validation_loss", &Run::best_validation_loss},
    {"best_validation_accuracy", &Run::best_validation_accuracy},
    {"test_loss", &Run::test_loss},
    {"top1", &Run::top1},
}};

struct CurveKey {
  const char* name;
  std::vector<Point> Run::*curve;
};
inline constexpr std::array<CurveKey, 3> kCurveKeys{
    {{"train", &Run::train}, {"validation", &Run::validation}, {"test", &Run::test}}};

}  // namespace lockstep::inspect
