#include "launcher/options/gpus.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/deadline.h"
#include "base/errors.h"
#include "base/told_wait.h"
#include "base/unique_fd.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

// Where no process uses a GPU the driver is loaded first, in seconds for each.
constexpr auto kDriverTime = 120s, kTellAfter = 4s, kDriverToDie = 2s;
// Of nvmlReturn_t.
constexpr int kNoDriver = 9, kNoLibrary = 12, kNoFunction = 13;

// As torch reads it: the digits that an entry begins with.
std::optional<int> leading_number(const std::string& entry) {
  const std::size_t first = entry.find_first_not_of(" \t+");
  if (first == std::string::npos) return std::nullopt;
  int number = 0;
  const auto [end, error] = std::from_chars(&entry[first], &entry[0] + entry.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  return number;
}

int listed_numbers(const std::vector<std::string>& devices, int of_machine) {
  std::vector<int> numbers;
  for (const std::string& device : devices) {
    const std::optional<int> number = leading_number(device);
    if (!number) break;
    if (std::find(numbers.begin(), numbers.end(), *number) != numbers.end()) return 0;
    numbers.push_back(*number);
  }
  const auto absent = std::find_if(numbers.begin(), numbers.end(),
                                   [=](int number) { return number >= of_machine; });
  return static_cast<int>(absent - numbers.begin());
}

int listed_names(const std::vector<std::string>& devices, const std::string& prefix) {
  const auto other = std::find_if(devices.begin(), devices.end(), [&](const std::string& device) {
    return !device.starts_with(prefix);
  });
  std::vector<std::string> names(devices.begin(), other);
  std::sort(names.begin(), names.end());
  if (std::adjacent_find(names.begin(), names.end()) != names.end()) return 0;
  return static_cast<int>(names.size());
}

Status set_by_gpus(LaunchOptions& options, int count) {
  if (count > 0) {
    options.nproc_per_node = count;
    return {};
  }
  if (options.nproc_from == WorkersFrom::kAuto) return {};
  return misuse(
      "--nproc-per-node gpu: no NVIDIA GPU is to be seen here (by the driver's libnvidia-ml.so.1" +
      std::string(options.visible_devices.empty() ? "" : " and CUDA_VISIBLE_DEVICES") +
      "); give a number, auto or cpu");
}

Status check_virtual_local_rank(const LaunchOptions& options) {
  if (!options.virtual_local_rank || options.visible_devices.empty()) return {};
  const auto devices = static_cast<int>(options.visible_devices.size());
  if (options.nproc_per_node <= devices) return {};
  return misuse(
      "--virtual-local-rank gives each worker a device of its own, and "
      "CUDA_VISIBLE_DEVICES names " +
      std::to_string(devices) + " for " + std::to_string(options.nproc_per_node) + " workers");
}

struct DriverSays {
  int code = 0;  // of nvmlReturn_t; -1: the process that asks has ended without any
  unsigned devices = 0;
};

// Leaves a thread behind that takes the process's signals, so it runs in a process of its own.
DriverSays ask_driver() {
  void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (library == nullptr) return {.code = kNoLibrary};
  const auto begin = reinterpret_cast<int (*)()>(::dlsym(library, "nvmlInit_v2"));
  const auto count =
      reinterpret_cast<int (*)(unsigned*)>(::dlsym(library, "nvmlDeviceGetCount_v2"));
  if (begin == nullptr || count == nullptr) return {.code = kNoFunction};
  DriverSays answer{.code = begin()};
  if (answer.code == 0) answer.code = count(&answer.devices);
  return answer;
}

// Nothing: not within kDriverTime.
std::optional<DriverSays> answer_of(int pipe) {
  const Deadline deadline = Deadline::in(kDriverTime);
  ToldWait wait(
      [] {
        return "the NVIDIA driver, which --nproc-per-node asks how many GPUs there are (up to " +
               std::to_string(kDriverTime / 1s) + " s)";
      },
      kTellAfter);
  pollfd ready{.fd = pipe, .events = POLLIN, .revents = 0};
  for (; ::poll(&ready, 1, 50) <= 0; wait.tell())
    if (deadline.passed()) return std::nullopt;
  DriverSays answer;
  return ::read(pipe, &answer, sizeof answer) == sizeof answer ? answer : DriverSays{.code = -1};
}

Error no_process() {
  return {ErrorKind::kUnavailable,
          "--nproc-per-node: no process can be made that asks the NVIDIA "
          "driver how many GPUs there are: " +
              std::string(std::strerror(errno))};
}

[[noreturn]] void answer_into(int pipe, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const DriverSays answer = ask_driver();
  const bool told = ::write(pipe, &answer, sizeof answer) == sizeof answer;
  ::_exit(told ? 0 : 1);
}

// One that is stuck in the driver does not even end on KILL.
void end_asking(pid_t process) {
  ::kill(process, SIGKILL);
  const Deadline deadline = Deadline::in(kDriverToDie);
  while (::waitpid(process, nullptr, WNOHANG) == 0 && !deadline.passed()) pause(1ms);
}

Result<int> count_of(const DriverSays& answer) {
  if (answer.code == 0) return static_cast<int>(answer.devices);
  if (answer.code == kNoDriver || answer.code == kNoLibrary) return 0;
  const std::string how = answer.code < 0 ? "ends the process that asks it"
                                          : "fails with NVML error " + std::to_string(answer.code);
  return Error{ErrorKind::kUnavailable,
               "--nproc-per-node: the NVIDIA driver does not say how many GPUs there are: its "
               "libnvidia-ml.so.1 " +
                   how + " (does nvidia-smi work?); give a number, or cpu"};
}

}  // namespace

Result<int> gpus_of_machine() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return no_process();
  const UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  const pid_t self = ::getpid(), pid = ::fork();
  if (pid == 0) answer_into(out.get(), self);
  if (pid < 0) return no_process();
  out.reset();
  const std::optional<DriverSays> answer = answer_of(in.get());
  end_asking(pid);
  if (answer) return count_of(*answer);
  return Error{ErrorKind::kUnavailable,
               "--nproc-per-node: the NVIDIA driver does not say how many GPUs there are (" +
                   std::to_string(kDriverTime / 1s) +
                   " s; does nvidia-smi?); give a number, or cpu"};
}

int visible_gpus(const std::vector<std::string>& visible_devices, int of_machine) {
  if (visible_devices.empty()) return of_machine;
  for (const std::string prefix : {"GPU-", "MIG-"})
    if (visible_devices.front().starts_with(prefix)) return listed_names(visible_devices, prefix);
  return listed_numbers(visible_devices, of_machine);
}

Status settle_workers(LaunchOptions& options, bool linked, Result<int> (*of_machine)()) {
  if (linked && options.nproc_from == WorkersFrom::kGpu)
    return misuse(
        "--nproc-per-node gpu: workers of programs that link Lockstep do not use GPUs yet; give a "
        "number, auto or cpu");
  if (!linked && options.nproc_from != WorkersFrom::kNumber) {
    LOCKSTEP_ASSIGN(const int count, of_machine());
    LOCKSTEP_TRY(set_by_gpus(options, visible_gpus(options.visible_devices, count)));
  }
  return check_virtual_local_rank(options);
}

}  // namespace lockstep::launcher
