#include "optim/closure.h"

#include <string>

#include "base/guard.h"

namespace lockstep::optim {
namespace {

thread_local bool closure_runs = false;

}  // namespace

ClosureScope::ClosureScope() { closure_runs = true; }
ClosureScope::~ClosureScope() { closure_runs = false; }

bool in_closure() { return closure_runs; }

void refuse_in_closure(const char* call, const char* instead) {
  if (!closure_runs) return;
  throw Thrown(
      {ErrorKind::kUsage,
       std::string(call) + " in a step's closure, which only returns the loss; " + instead});
}

}  // namespace lockstep::optim
