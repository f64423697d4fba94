// The rules of `lockstep run --inject SPEC`: faults for tests. Parsed by the launcher, to refuse a
// bad one at once, and by the workers, who carry them out (worker/inject.h).
//
// SPEC: rules separated by ';'. A rule: ACTION KEY=VALUE ...
//   ACTION      kill (SIGKILL) | stop (SIGSTOP) | exit=CODE | abort | segv | hang | throw
//   rank        a number, any (default; whoever comes there first), or new: a newcomer that is
//               not a member yet
//   host        the node, by its rank (GROUP_RANK), whose workers the rule is for; any: each node
//               by itself. Default: any for a rank that is a number, else 0, so that a rule that
//               all launchers are given fires on one of them
//   txn         transaction number; default: any
//   phase       data forward backward exchange optimizer snapshot evaluate heal done; default: any
//   share       the virtual worker being computed; default: any
//   generation  first: only in workers of the first start; any (default)
//   repeat      how often the rule fires in the life of the launcher, on each node (default 1)
// Example: "kill rank=1 txn=300 phase=backward; stop host=2 txn=5 phase=exchange"
//
// Errors: kUsage, naming the rule and the word. Threads: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "coord/board.h"
#include "lockstep/status.h"

namespace lockstep::coord {

enum class FaultAction { kKill, kStop, kExit, kAbort, kSegv, kHang, kThrow };

inline constexpr Rank kNewcomer{-1};  // the rank of a worker that is in no table yet

struct Fault {
  std::string text;  // the rule as it was written
  FaultAction action = FaultAction::kKill;
  int exit_code = 1;
  std::optional<Rank> rank;
  std::optional<int> host;  // none: any
  std::optional<Txn> txn;
  std::optional<Phase> phase;
  std::optional<std::uint32_t> share;
  bool first_generation_only = false;
  std::uint64_t repeat = 1;

  bool is_for(int node) const { return !host || *host == node; }
};

// At most kMaxFaults rules.
Result<std::vector<Fault>> parse_faults(std::string_view spec);

// Also the environment variable that carries SPEC to the workers.
inline constexpr const char* kInjectVariable = "LOCKSTEP_INJECT";

}  // namespace lockstep::coord
