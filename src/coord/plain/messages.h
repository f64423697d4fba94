// What a host (host.h) and who decides for it say to each other: the host reports, the run (run.h)
// gives orders; on several hosts each one's head does (several_hosts.h). Plain values, in order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace lockstep::coord::plain {

// Attempts are numbered from 1. Of another one than the newest, reports count for nothing.
namespace report {

// All of the host's workers have ended with 0.
struct Well {
  int attempt = 0;
};
// One of its workers has failed, or could not be started: the first in the attempt.
struct Failed {
  int attempt = 0;
  std::string text;           // "rank 3 (local rank 1) ended with exit 1"
  bool from_outside = false;  // not the program's own doing
  // The run's exit code, where another attempt would only end the same way.
  std::optional<int> code = {};
  int rank = -1;  // the worker's; -1: of none
  bool by_signal = false, has_error_file = false;
  std::uint64_t age_ns = 0;  // since it happened
};
// After End or Stop, and after its own Signalled: none of its workers lives; after End nothing that
// they have started either.
struct Gone {
  int attempt = 0;
};
// Its launcher was told to end, and its workers are. Again: by a second signal they are killed.
struct Signalled {
  int signal = 0;
  std::string by = {};  // event::Signal's
};

}  // namespace report

using Report = std::variant<report::Well, report::Failed, report::Gone, report::Signalled>;

namespace order {

// Start this attempt's workers. Answer: Well or Failed.
struct Begin {
  int attempt = 0;
  int world_size = 1;
  int base_rank = 0;  // the rank of the host's first worker
  int restart_count = 0, max_restarts = 0;
  std::string where = {};  // on several hosts: this one's place among them, to be said once
};
// Kill them, those that Stop has told to end, too; another attempt may follow. Answer: Failed, if a
// death of before was still held; Gone.
struct End {
  int attempt = 0;
  std::string text;  // to be said, if any
};
// Tell them to end, by `signal`, and kill who does not; no attempt follows. Answer: as to End.
struct Stop {
  std::string reason;  // to be said, if any
  int signal = 0;
};
// All have ended: so does the launcher.
struct Final {
  int code = 0;
  std::string reason;
};

}  // namespace order

using Order = std::variant<order::Begin, order::End, order::Stop, order::Final>;

}  // namespace lockstep::coord::plain
