// The closure of a step only returns the loss: what changes gradients and parameters is the run's.
// PyTorch's habits there (zero_grad() in the closure, clipping after a backward) would do nothing,
// or the wrong thing without a word; so they are errors.
// Threads: it holds for the thread that it was made on. Errors: by exception, as loss functions
// have no other way.
#pragma once

namespace lockstep::optim {

// For as long as it lives, a closure runs on this thread. Not nested.
class ClosureScope {
 public:
  ClosureScope();
  ~ClosureScope();
  ClosureScope(const ClosureScope&) = delete;
};

bool in_closure();

// Throws (kUsage) in a closure; `instead` ends the message: what to do.
void refuse_in_closure(const char* call, const char* instead);

}  // namespace lockstep::optim
