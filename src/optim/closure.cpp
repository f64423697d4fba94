#include "optim/closure.h"

#include <string>

#include "base/guard.h"

namespace lockstep::optim {
namespace {

thread_local bool in_closure = false;

}  // namespace

ClosureScope::ClosureScope() { in_closure = true; }
ClosureScope::~ClosureScope() { in_closure = false; }

void refuse_in_closure(const char* call, const char* instead) {
  if (!in_closure) return;
  throw Thrown(
      {ErrorKind::kUsage,
       std::string(call) + " in a step's closure, which only returns the loss; " + instead});
}

}  // namespace lockstep::optim
