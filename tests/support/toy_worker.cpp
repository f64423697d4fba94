// A torch-free program to test the launcher end to end: toy.h takes part in the run; here are the
// command line and the ways to begin and to end.
//
//   toy_worker --run-dir DIR [--txns N] [--shares V] [--step-us T] [--load-ms T]
//              [--print BYTES] [--checkpoint-every N] [--exit-early RANK:TXN:CODE]
//              [--fail RANK:TXN] [--become-sleep RANK:TXN] [--newcomers-fail]
//              [--subreaper] [--thread] [--ids N] [--startup-exit CODE] [--startup-kill]
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/log.h"
#include "support/toy.h"

namespace {

using namespace lockstep;
using toy::Options;
using toy::Toy;

int toy_main(int argc, char** argv) {
  const auto parsed = Options::parse(argc, argv);
  if (!parsed) return 2;
  const Options& options = *parsed;
  if (options.has("startup-exit")) return static_cast<int>(options.number("startup-exit", 0));
  if (options.has("startup-kill")) ::raise(SIGKILL);
  if (options.has("subreaper")) ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::optional<std::jthread> second;
  std::atomic<bool> named = false;
  if (options.has("thread")) {
    second.emplace([&] {
      ::prctl(PR_SET_NAME, "toy_second");
      named = true;
      ::sleep(1);
    });
    while (!named) std::this_thread::yield();
  }
  auto session = worker::Session::open();
  if (!session.ok()) {
    log_error(session.error().message);
    return exit_code(session.error().kind);
  }
  std::filesystem::create_directories(options.text("run-dir"));
  Status status;
  try {
    status = Toy(**session, options).run();
  } catch (const std::exception& error) {
    status = Error{ErrorKind::kInternal, error.what()};
  }
  if (status.ok()) return 0;
  (void)(*session)->fail(status.error()).ok();
  return exit_code(status.error().kind);
}

}  // namespace

int main(int argc, char** argv) { return toy_main(argc, argv); }
