#include "launcher/options/option_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "base/cpus.h"
#include "base/errors.h"
#include "base/suggest.h"
#include "base/text.h"
#include "coord/table.h"
#include "launcher/options/signal_list.h"

namespace lockstep::launcher {

std::string in_quotes(std::string_view text) { return "'" + std::string(text) + "'"; }

std::string given_as(const Raw& raw, const std::string& option) {
  const auto found = raw.given.find(option);
  return found == raw.given.end() ? "--" + option : found->second;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
  return text.substr(0, text.find_last_not_of(kBlank) + 1);
}

Result<int> to_int(std::string_view name, std::string_view text, int least, int most) {
  const auto value = number_of<int>(text);
  if (!value || *value < least || *value > most)
    return misuse("--" + std::string(name) + " takes a whole number from " + std::to_string(least) +
                  " to " + std::to_string(most) + ", not " + in_quotes(text));
  return *value;
}

namespace {

Result<std::chrono::milliseconds> to_seconds(std::string_view name, const std::string& text,
                                             int least) {
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(seconds >= least) || seconds > 86'400)
    return misuse("--" + std::string(name) + " takes seconds from " + std::to_string(least) +
                  " to 86400, not " + in_quotes(text));
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1000)));
}

// "3" for all ranks, or "0:1,12:3".
Result<StreamMap> to_streams(std::string_view name, const std::string& text) {
  const Error wrong = misuse("--" + std::string(name) +
                             " takes 0 to 3 (1 stdout, 2 stderr, 3 both), or pairs like 0:1,1:3 of "
                             "a local rank and one of these, not " +
                             in_quotes(text));
  StreamMap map;
  if (text.find(':') == std::string::npos) {
    const auto value = to_int(name, text, 0, 3);
    if (!value.ok()) return wrong;
    map.all = static_cast<unsigned>(*value);
    return map;
  }
  for (const std::string& part : split(text, ',')) {
    const std::size_t colon = part.find(':');
    if (colon == std::string::npos) return wrong;
    const auto rank = to_int(name, part.substr(0, colon), 0, 1023),
               value = to_int(name, part.substr(colon + 1), 0, 3);
    if (!rank.ok() || !value.ok()) return wrong;
    map.by_rank[*rank] = static_cast<unsigned>(*value);
  }
  return map;
}

Status set_workers(Raw& raw, const std::string& text) {
  LaunchOptions& options = raw.options;
  options.nproc_from = text == "auto"  ? WorkersFrom::kAuto
                       : text == "gpu" ? WorkersFrom::kGpu
                                       : WorkersFrom::kNumber;
  if (text == "gpu") return {};
  if (text == "auto" || text == "cpu") {
    options.nproc_per_node = cpus_for_workers(posix_env());
    return {};
  }
  if (text == "xpu")
    return misuse("--nproc-per-node xpu: GPUs other than NVIDIA's are not counted; give a number");
  // The limit of one run; a plain program has the same.
  const auto workers = to_int("nproc-per-node", text, 1, coord::kMaxWorkers);
  const std::array<std::string, 3> words{"auto", "cpu", "gpu"};
  if (!workers.ok()) return misuse(workers.error().message + suggestion(text, words));
  options.nproc_per_node = *workers;
  return {};
}

Status set_start_method(Raw& raw, const std::string& text) {
  const std::array<std::string, 4> known{"fork", "exec", "spawn", "forkserver"};
  if (text == "fork")
    raw.options.start_method = StartMethod::kFork;
  else if (text == "exec")
    raw.options.start_method = StartMethod::kExec;
  else if (text != "spawn" && text != "forkserver")
    return misuse("--start-method takes fork, exec, spawn or forkserver, not " + in_quotes(text) +
                  suggestion(text, known));
  return {};
}

constexpr int kLeastHangTimeout = 1;

Option number(const std::string& name, int LaunchOptions::*field, int least, int most,
              std::string help) {
  return {name, "N", std::move(help), [=](Raw& raw, const std::string& text) -> Status {
            LOCKSTEP_ASSIGN(raw.options.*field, to_int(name, text, least, most));
            return {};
          }};
}

Option seconds(const std::string& name, std::chrono::milliseconds LaunchOptions::*field,
               std::string help, int least = 0) {
  return {name, "SECONDS", std::move(help), [=](Raw& raw, const std::string& text) -> Status {
            LOCKSTEP_ASSIGN(raw.options.*field, to_seconds(name, text, least));
            return {};
          }};
}

Option text_option(std::string name, std::string value, std::string LaunchOptions::*field,
                   std::string help) {
  return {std::move(name), std::move(value), std::move(help),
          [=](Raw& raw, const std::string& text) -> Status {
            raw.options.*field = text;
            return {};
          }};
}

Option flag(std::string name, bool LaunchOptions::*field, std::string help, char letter = 0) {
  return {std::move(name), "", std::move(help),
          [=](Raw& raw, const std::string& text) -> Status {
            raw.options.*field = text != "0";
            return {};
          },
          letter};
}

Option streams(const std::string& name, StreamMap LaunchOptions::*field, std::string help,
               char letter) {
  return {name, "0-3|RANK:0-3,...", std::move(help),
          [=](Raw& raw, const std::string& text) -> Status {
            LOCKSTEP_ASSIGN(raw.options.*field, to_streams(name, text));
            return {};
          },
          letter};
}

// torchrun's options that would change what happens and that one node on CPUs cannot honour.
Option refused(const std::string& name, const std::string& why) {
  return {name, "VALUE", "", [=](Raw&, const std::string&) -> Status {
            return misuse("--" + name + " is not supported: " + why);
          }};
}

std::vector<Option> basic_options() {
  return {
      {"nproc-per-node", "N|auto|gpu|cpu",
       "workers to start (default 1); gpu: of a plain program, one for each GPU; cpu: for each "
       "usable CPU; auto: gpu if there is one, else cpu",
       set_workers},
      flag("standalone", &LaunchOptions::standalone, "one node, a random run id, a free port"),
      number("max-restarts", &LaunchOptions::max_restarts, 0, 1'000'000,
             "restarts of the whole group before giving up (default 0)"),
      number("max-replacements", &LaunchOptions::max_replacements, 0, 1'000'000,
             "replacements of single workers (default 10; given back after 100 committed steps)"),
      {"start-method", "fork|exec|spawn|forkserver",
       "how workers of programs that link Lockstep start (default fork); torchrun's spawn and "
       "forkserver concern Python functions and change nothing",
       set_start_method},
      text_option("role", "NAME", &LaunchOptions::role,
                  "name of the workers, in logs and ROLE_NAME (default 'default')"),
      flag("module", &LaunchOptions::module, "the program is a Python module", 'm'),
      flag("no-python", &LaunchOptions::no_python,
           "start the program itself, whatever its name ends in"),
      flag("linked", &LaunchOptions::linked,
           "the program links Lockstep, though it does not show: it is a wrapper, a debugger, or "
           "opens a library that does"),
      flag("run-path", &LaunchOptions::run_path,
           "start the program by Python, whatever its name ends in; over --no-python"),
      flag(
          "virtual-local-rank", &LaunchOptions::virtual_local_rank,
          "each plain worker has LOCAL_RANK 0 and, in CUDA_VISIBLE_DEVICES, one device of its own"),
      seconds("shutdown-timeout", &LaunchOptions::shutdown_timeout,
              "for the workers to leave in order, the last checkpoint included, or to end on a "
              "signal; then they are killed (default 30)"),
      {"signals-to-handle", "SIG,SIG,...",
       "signals that end the run in order, too, like SIGUSR1; always TERM, INT, HUP and QUIT",
       [](Raw& raw, const std::string& text) -> Status {
         LOCKSTEP_ASSIGN(raw.options.signals_to_handle, parse_signals(text));
         return {};
       }},
      seconds("stop-grace", &LaunchOptions::stop_grace,
              "how long a worker may be stopped by SIGSTOP (default 1)"),
      {"hang-timeout", "SECONDS",
       "end a worker that gets no further for so long in a phase of a step or between steps (at "
       "least 1), whether others wait for it or not; by default one is ended only once others "
       "have waited for it for 10 minutes, or 10 times as long as any has stood still before",
       [](Raw& raw, const std::string& text) -> Status {
         LOCKSTEP_ASSIGN(raw.options.hang_timeout,
                         to_seconds("hang-timeout", text, kLeastHangTimeout));
         return {};
       }},
  };
}

std::vector<Option> log_options() {
  return {
      text_option("log-dir", "DIR", &LaunchOptions::log_dir, "where the workers' logs go"),
      {"progress", "auto|off|SECONDS",
       "how a run of Lockstep's steps tells how it is getting on, on standard error: a bar on a "
       "terminal, elsewhere a line where nothing was printed for 60 s (auto, the default); or a "
       "line every so many seconds",
       [](Raw& raw, const std::string& text) -> Status {
         LOCKSTEP_ASSIGN(raw.options.progress, coord::progress_mode("--progress", text));
         return {};
       }},
      streams("redirects", &LaunchOptions::redirects,
              "streams that go to files: 1 stdout, 2 stderr, 3 both", 'r'),
      streams("tee", &LaunchOptions::tee, "streams that go to files and the console", 't'),
      {"local-ranks-filter", "R,R,...", "only these local ranks write to the console",
       [](Raw& raw, const std::string& text) -> Status {
         raw.options.local_ranks_filter.clear();  // the environment's
         for (const std::string& part : split(text, ',')) {
           if (text.empty()) break;
           LOCKSTEP_ASSIGN(const int rank, to_int("local-ranks-filter", part, 0, 1023));
           raw.options.local_ranks_filter.push_back(rank);
         }
         return {};
       }},
  };
}

// Torchrun's of which nothing can be missed on one host, and those that are not there; and faults.
std::vector<Option> other_options() {
  return {
      {"monitor-interval", "SECONDS", "",
       [](Raw&, const std::string& text) -> Status {
         LOCKSTEP_ASSIGN([[maybe_unused]] const auto pause,
                         to_seconds("monitor-interval", text, 0));
         return {};
       }},
      {"event-log-handler", "null", "",
       [](Raw&, const std::string& text) -> Status {
         if (text == "null") return {};
         return misuse("--event-log-handler " + in_quotes(text) +
                       " is not supported: no events are logged but those in incidents/; use null");
       }},
      refused("numa-binding", "workers are not bound to CPUs"),
      refused("logs-specs", "logs go where --log-dir says"),
      refused("duplicate-stdout-filters", "use --tee"),
      refused("duplicate-stderr-filters", "use --tee"),
      {"inject", "SPEC",
       "faults for tests, like 'kill rank=1 txn=300 phase=backward', or 'stop host=2 txn=5' on "
       "several nodes; may be repeated (docs/design/launching.md)",
       [](Raw& raw, const std::string& text) -> Status {
         raw.options.inject += (raw.options.inject.empty() ? "" : "; ") + text;
         return {};
       }},
  };
}

}  // namespace

std::vector<Option> all_options() {
  std::vector<Option> options = basic_options();
  for (Option& option : log_options()) options.push_back(std::move(option));
  for (Option& option : rendezvous_options()) options.push_back(std::move(option));
  for (Option& option : other_options()) options.push_back(std::move(option));
  for (Option& option : options)
    for (const char* name :
         {"max-replacements", "stop-grace", "hang-timeout", "progress", "inject", "tie-break"})
      option.of_linked = option.of_linked || option.name == name;
  for (Option& option : options) option.of_plain = option.name == "store-port";
  return options;
}

}  // namespace lockstep::launcher
