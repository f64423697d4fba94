// The tutorial's four ways to train.
#pragma once

#include <string_view>

namespace convnet {

enum class Mode { kSingle, kDataParallel, kDistributed, kHorovod };

// single, dp, ddp, horovod; any other name is ddp, the default.
constexpr Mode mode_named(std::string_view name) {
  if (name == "single") return Mode::kSingle;
  if (name == "dp") return Mode::kDataParallel;
  return name == "horovod" ? Mode::kHorovod : Mode::kDistributed;
}

constexpr std::string_view name_of(Mode mode) {
  if (mode == Mode::kSingle) return "single";
  if (mode == Mode::kDataParallel) return "dp";
  return mode == Mode::kHorovod ? "horovod" : "ddp";
}

}  // namespace convnet
