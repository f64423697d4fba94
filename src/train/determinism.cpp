#include "train/determinism.h"

#include <ATen/Context.h>
#include <c10/util/Exception.h>

#include <mutex>
#include <set>
#include <string>

#include "base/log.h"

namespace lockstep::training {
namespace {

// libtorch's own says a warning as often as it is given: in each step.
class SaysOnce final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    const std::lock_guard lock(mutex_);
    if (said_.insert(warning.msg()).second) log_warning(warning.msg());
  }

 private:
  std::mutex mutex_;
  std::set<std::string> said_;
};

}  // namespace

void use_deterministic_algorithms(Deterministic mode) {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(mode != Deterministic::kOff, mode == Deterministic::kWarn);
  // A program that reads what it has not written is wrong in any mode, and filling costs time.
  context.setDeterministicFillUninitializedMemory(false);
  if (mode != Deterministic::kWarn) return;
  static SaysOnce says_once;
  c10::WarningUtils::set_warning_handler(&says_once);  // of this thread, and so of the run
}

Error with_own_option(Error error) {
  if (error.message.find("does not have a deterministic implementation") == std::string::npos)
    return error;
  error.message += " (here that is --deterministic warn, RunOptions::deterministic)";
  return error;
}

}  // namespace lockstep::training
