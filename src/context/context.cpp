#include "lockstep/context.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <malloc.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/log.h"
#include "base/process_setup.h"
#include "context/session_of.h"

namespace lockstep {
namespace {

constexpr int kMostThreads = 1024;  // more are a slip, and each costs memory

// The headers' TORCH_VERSION against that of the library found at run time: a mismatch starts, then
// dies of bad_alloc.
Status check_torch_version() {
  const std::string config = at::show_config();
  const std::string key = "TORCH_VERSION=";
  const auto at = config.find(key);
  const std::string found =
      at == std::string::npos
          ? "unknown"
          : config.substr(at + key.size(), config.find_first_of(",\n", at) - at - key.size());
  const std::string built = std::to_string(TORCH_VERSION_MAJOR) + "." +
                            std::to_string(TORCH_VERSION_MINOR) + "." +
                            std::to_string(TORCH_VERSION_PATCH);
  if (found == built) return {};
  return Error{
      ErrorKind::kUsage,
      "this program was built for libtorch " + built + " and found libtorch " + found +
          ": build it again, or run it with the torch it was built for (LOCKSTEP_TORCH_DIR)"};
}

// glibc returns every large tensor to the kernel each step otherwise: a quarter of a training step
// is page faults.
void keep_the_heap() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 16 << 20);
}

Result<int> threads_from(const InitOptions& options) {
  const char* variable = std::getenv("OMP_NUM_THREADS");
  if (options.threads == 0 && (variable == nullptr || *variable == '\0')) return 1;
  const bool given = options.threads != 0;
  const std::string text = given ? std::to_string(options.threads) : variable;
  // OpenMP's own form is a list, a number for each level of nesting; ours is the first.
  int threads = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, code] = std::from_chars(text.data(), end, threads);
  if (code == std::errc() && (rest == end || *rest == ',') && threads >= 1 &&
      threads <= kMostThreads)
    return threads;
  return Error{ErrorKind::kUsage, (given ? "the number of threads" : "OMP_NUM_THREADS") +
                                      (" is '" + text + "'; 1 to ") + std::to_string(kMostThreads) +
                                      " threads of each worker are possible"};
}

// A fact of the process.
std::atomic_flag& fork_point_passed() {
  static std::atomic_flag passed;
  return passed;
}

}  // namespace

Context::Context(std::unique_ptr<worker::Session> session, int threads)
    : session_(std::move(session)), threads_(threads) {}
Context::~Context() = default;
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;

int Context::rank() const { return session_->identity().rank.value(); }
int Context::local_rank() const { return session_->identity().local_rank.value(); }
int Context::world_size() const {
  session_->note_world_size();
  return session_->identity().world_size;
}
bool Context::launched() const { return session_->launched(); }

worker::Session& session_of(Context& context) { return *context.session_; }

Result<int> prepare_worker(const char* call, const InitOptions& options) {
  if (fork_point_passed().test())
    return Error{ErrorKind::kUsage,
                 std::string(call) +
                     ": this process has passed its fork point: lockstep::init() was called "
                     "before, or it is a worker of lockstep::spawn(). Call one of the two once, at "
                     "the start of main(), and pass the Context on"};
  prepare_process();
  LOCKSTEP_TRY(check_working_directory());
  LOCKSTEP_TRY(check_torch_version());
  keep_the_heap();
  return threads_from(options);
}

Context begin_worker(std::unique_ptr<worker::Session> session, int threads) {
  fork_point_passed().test_and_set();
  (void)is_first_main();
  // Into a pipe or file too, lines come out when they are printed: a killed worker's would be lost.
  // What main() has printed already, too.
  if (session->launched()) std::fflush(stdout), std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  at::set_num_threads(threads);
  return Context(std::move(session), threads);
}

Result<Context> init(const InitOptions& options) {
  LOCKSTEP_ASSIGN(const int threads, prepare_worker("lockstep::init()", options));
  LOCKSTEP_ASSIGN(auto session, worker::Session::open(options.rendezvous));
  return begin_worker(std::move(session), threads);
}

void exit_with(const Error& error) {
  flush_outputs();
  log_error(error.message);
  _exit(exit_code(error.kind));
}

void exit_with(Context& context, const Status& status) {
  if (!status.ok() && status.error().kind != ErrorKind::kLeft) {
    // The agent prints the first worker's error; a worker alone prints its own.
    worker::Session& session = session_of(context);
    if (!session.fail(status.error()).ok() || !session.is_told_by_agent())
      log_error(status.error().message);
    flush_outputs();
    _exit(exit_code(status.error().kind));
  }
  flush_outputs();
  session_of(context).done();
  _exit(0);
}

}  // namespace lockstep
