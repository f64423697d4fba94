// What the launcher's options say of a run of a linked program. Values.
#pragma once

#include <csignal>
#include <cstdint>
#include <vector>

namespace lockstep::coord {

// Nanoseconds. The launcher's options set stop_grace, orderly and kill_grace; without a zygote the
// agent gives a minute for hello. What users are told of them: docs/guide/errors.md, "Time limits".
struct Timing {
  std::uint64_t hello = 10'000'000'000;           // from Forked to Hello
  std::uint64_t fork = 10'000'000'000;            // from Spawn to Forked while the zygote is ready
  std::uint64_t attach = 10'000'000'000;          // attached: until the first one has come
  std::uint64_t attach_orphaned = 1'000'000'000;  // the same, once its starter is gone
  std::uint64_t first_table = 1'800'000'000'000;  // from the (re)start to all being ready
  std::uint64_t join = 1'800'000'000'000;         // from a newcomer's Forked to its Ready
  std::uint64_t stop_grace = 1'000'000'000;       // SIGSTOP to eviction
  std::uint64_t strict_hang = 0;               // --hang-timeout; 0: only for who lets others wait
  std::uint64_t close_grace = 2'000'000'000;   // from the end of a worker's words to eviction
  std::uint64_t incident_window = 50'000'000;  // victims this close are one incident
  std::uint64_t heal_retry = 50'000'000;       // between two requests for a copy
  // Newcomers alone, waiting for a transaction whose members all died.
  std::uint64_t orphan_grace = 1'000'000'000;
  // kStop in the proposal to SIGKILL; attached: to End.
  std::uint64_t orderly = 30'000'000'000;
  std::uint64_t kill_grace = 30'000'000'000;  // a signal, or End, to SIGKILL
  // From a signal to workers to the answer: the launcher and the other workers may be about to get
  // it too.
  std::uint64_t signal_wait = 1'000'000'000;
  // What comes again within this time is the same one: whoever passes a signal on to a process has
  // often sent it to the process's group before (timeout(1)).
  std::uint64_t same_signal = 500'000'000;
};

struct Config {
  std::uint32_t workers = 1;            // asked for at the first start
  int max_restarts = 0;                 // rung 3
  int max_replacements = 10;            // incidents whose victims are replaced
  std::uint64_t give_back_after = 100;  // committed transactions until a replacement is given back
  int no_progress_restarts = 3;
  bool zygote = true;  // spawns wait for ZygoteReady
  // Workers come by themselves, one of each rank, and nobody starts another in a dead one's place:
  // it waits, at no cost, for the same command. The run ends with its last worker.
  bool attached = false;
  bool asked_for_help = false;  // then the program ends with 0 before its first worker
  // Those that ask for an end.
  std::vector<int> stop_signals{SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  Timing timing;
};

}  // namespace lockstep::coord
