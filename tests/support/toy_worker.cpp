// A torch-free program to test the launcher end to end: toy.h takes part in the run; here are the
// command line and the ways to begin and to end.
//
//   toy_worker --run-dir DIR [--txns N] [--shares V] [--step-us T] [--load-ms T]
//              [--print BYTES] [--checkpoint-every N] [--exit-early RANK:TXN:CODE]
//              [--fail RANK:TXN[:65]] [--become-sleep RANK:TXN] [--newcomers-fail]
//              [--slow RANK:TXN:SECONDS [--how asleep]] (RANK -2: all; it computes, or sleeps)
//              [--spawn N] [--subreaper] [--thread] [--ids N]
//              [--startup-exit CODE] [--startup-kill] [--greets] [--forks-sleeper]
//              [--address A --rank R --world N [--wait MS]]
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <latch>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>

#include "base/deadline.h"
#include "base/log.h"
#include "base/process_setup.h"
#include "support/toy.h"
#include "worker/spawn.h"

namespace {

using namespace lockstep;
using toy::Options;
using toy::Toy;

int train(worker::Session& session, const Options& options) {
  if (options.has("forks-sleeper") && ::fork() == 0)
    for (;;) ::pause();
  std::filesystem::create_directories(options.text("run-dir"));
  Status status;
  try {
    status = Toy(session, options).run();
  } catch (const std::exception& error) {
    status = Error{ErrorKind::kInternal, error.what()};
  }
  if (status.ok()) return 0;
  (void)session.fail(status.error()).ok();
  return exit_code(status.error().kind);
}

int told(const Error& error) {
  log_error(error.message);
  return exit_code(error.kind);
}

int spawn(int workers, const Options& options) {
  const auto life = [&](std::unique_ptr<worker::Session> session) {
    const int code = train(*session, options);
    flush_outputs();
    ::_exit(code);
  };
  const Status done = worker::spawn({workers, {}, life});
  return done.ok() ? 0 : told(done.error());
}

std::optional<Rendezvous> rendezvous_of(const Options& options) {
  if (!options.has("rank")) return std::nullopt;
  return Rendezvous{options.text("address"), static_cast<int>(options.number("rank", 0)),
                    static_cast<int>(options.number("world", 1)),
                    std::chrono::milliseconds(options.number("wait", 20'000))};
}

int toy_main(int argc, char** argv) {
  const auto parsed = Options::parse(argc, argv);
  if (!parsed) return 2;
  const Options& options = *parsed;
  if (options.has("startup-exit")) return static_cast<int>(options.number("startup-exit", 0));
  if (options.has("startup-kill")) ::raise(SIGKILL);
  if (options.has("greets")) std::printf("before init\n");
  if (options.has("subreaper")) ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::latch named(1);
  std::optional<std::jthread> second;  // until this function ends
  if (options.has("thread")) {
    second.emplace([&](const std::stop_token& stop) {
      ::prctl(PR_SET_NAME, "toy_second");
      named.count_down();
      while (!stop.stop_requested()) pause(std::chrono::milliseconds(5));
    });
    named.wait();
  }
  if (options.has("spawn")) return spawn(static_cast<int>(options.number("spawn", 1)), options);
  auto session = worker::Session::open(rendezvous_of(options));
  return session.ok() ? train(**session, options) : told(session.error());
}

}  // namespace

#ifdef TOY_LIBRARY  // see toy_by_library.cpp
extern "C" int toy_library_main(int argc, char** argv) { return toy_main(argc, argv); }
#else
int main(int argc, char** argv) { return toy_main(argc, argv); }
#endif
