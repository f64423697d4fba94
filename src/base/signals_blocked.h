// Signals of the process are the program's business, in its own threads: ours are born with all
// signals blocked.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace lockstep {

// Of the calling thread, as long as it lives: around the start of a thread, which inherits it.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace lockstep
