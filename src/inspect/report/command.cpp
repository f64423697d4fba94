// `lockstep report`.
#include <limits>

#include "inspect/arguments.h"
#include "inspect/commands.h"
#include "inspect/files.h"
#include "inspect/report/figures.h"
#include "inspect/report/formats.h"
#include "inspect/text.h"

namespace lockstep::inspect {
namespace {

constexpr const char* kHelp =
    "usage: lockstep report RUN... [--out PAGE.html] [--markdown | --csv | --json] [--budget "
    "TIME]\n\n"
    "RUN: a run directory; a .pt file of the time-budget tutorial's trainer (NAME.pt or\n"
    "NAME_metrics.pt); a .json file of runs, as --json prints it. Runs of one name (NAME-run is\n"
    "NAME's) are one: later ones fill in what the first lacks.\n\n"
    "  --out PAGE.html   table and graphs as one page that needs nothing else\n"
    "  --budget TIME     of each run: 2h, 90min, 45s\n";

constexpr const char* kUsage =
    "lockstep report RUN... [--out PAGE.html] [--markdown | --csv | --json] [--budget TIME]";

Result<std::vector<Run>> read_all(Env& env, const Arguments& arguments) {
  std::vector<Run> runs;
  for (const std::string& path : arguments.paths) {
    LOCKSTEP_ASSIGN(auto some, read_runs(env, path));
    for (Run& run : some) runs.push_back(std::move(run));
  }
  runs = merged(std::move(runs));
  if (const auto budget = arguments.value("--budget")) {
    LOCKSTEP_ASSIGN(const double seconds, parse_duration(*budget));
    for (Run& run : runs) run.budget_s = seconds;
  }
  return runs;
}

Result<std::string> printed(const Arguments& arguments, std::span<const Run> runs) {
  if (arguments.flags.size() > 1)
    return Error{ErrorKind::kUsage,
                 std::string("give one of --markdown, --csv and --json; usage: ") + kUsage};
  if (arguments.has("--markdown")) return report_markdown(runs);
  if (arguments.has("--csv")) return report_csv(runs);
  if (arguments.has("--json")) return report_json(runs);
  return report_text(runs);
}

}  // namespace

Result<Answer> report_command(Env& env, Words words) {
  if (!words.empty() && (words[0] == "--help" || words[0] == "-h" || words[0] == "help"))
    return Answer{kHelp};
  const Syntax syntax{kUsage,
                      {"--markdown", "--csv", "--json"},
                      {"--out", "--budget"},
                      1,
                      std::numeric_limits<std::size_t>::max()};
  LOCKSTEP_ASSIGN(const Arguments arguments, parse(words, syntax));
  const auto out = arguments.value("--out");
  if (out) LOCKSTEP_TRY(check_not_read(env, *out, arguments.paths));
  LOCKSTEP_ASSIGN(const auto runs, read_all(env, arguments));
  LOCKSTEP_ASSIGN(std::string text, printed(arguments, runs));
  if (out) LOCKSTEP_TRY(write_atomically(env, *out, report_html(runs)));
  return Answer{std::move(text)};
}

}  // namespace lockstep::inspect
