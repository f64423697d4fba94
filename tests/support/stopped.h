// A worker that stands still, as by --inject "stop ...", and goes on.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <string>

#include "support/child.h"
#include "support/until.h"

namespace lockstep::test {

// Waits until a process whose command line contains `text` has stopped, and continues it after
// `meanwhile`.
template <class Call>
void while_stopped(const std::string& text, Call meanwhile) {
  const auto stopped = [&]() -> pid_t {
    for (const pid_t pid : processes_with(text))
      if (read_text("/proc/" + std::to_string(pid) + "/stat").find(") T ") != std::string::npos)
        return pid;
    return 0;
  };
  pid_t pid = 0;
  ASSERT_TRUE(until([&] { return (pid = stopped()) != 0; }));
  meanwhile();
  ::kill(pid, SIGCONT);
}

}  // namespace lockstep::test
