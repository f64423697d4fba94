// Preloaded into a process: its wall clock is LOCKSTEP_TEST_CLOCK seconds ahead of the machine's
// (namespaces have clocks of their own, but for this one). Once there is a file by the name of
// LOCKSTEP_TEST_SUSPEND, its machine seems to have been suspended for a minute: the boot's clock
// has gone on, the monotonic one has not.
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <ctime>

namespace {

time_t ahead() {
  const char* const text = std::getenv("LOCKSTEP_TEST_CLOCK");
  return text == nullptr ? 0 : static_cast<time_t>(std::atoll(text));
}

time_t slept() {
  static std::atomic<bool> woken{false};
  constexpr time_t kMinute = 60;
  const char* const file = std::getenv("LOCKSTEP_TEST_SUSPEND");
  if (file != nullptr && !woken && ::access(file, F_OK) == 0) woken = true;
  return woken ? kMinute : 0;
}

}  // namespace

// The C library's own names of parameters are reserved.
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const long code = ::syscall(SYS_clock_gettime, clock, now);
  if (code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    now->tv_sec += ahead();
  if (code == 0 && clock == CLOCK_BOOTTIME) now->tv_sec += slept();
  return static_cast<int>(code);
}

int gettimeofday(timeval* __restrict now, void* __restrict) noexcept {
  timespec precise{};
  const int code = clock_gettime(CLOCK_REALTIME, &precise);
  *now = {precise.tv_sec, precise.tv_nsec / 1000};
  return code;
}

time_t time(time_t* seconds) noexcept {
  timespec precise{};
  clock_gettime(CLOCK_REALTIME, &precise);
  if (seconds != nullptr) *seconds = precise.tv_sec;
  return precise.tv_sec;
}
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
