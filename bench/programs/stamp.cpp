// The plain program whose start is timed: prints CLOCK_MONOTONIC in nanoseconds as soon as main
// runs.
#include <cstdio>
#include <ctime>

int main() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  std::printf("%lld\n", static_cast<long long>(now.tv_sec) * 1'000'000'000 + now.tv_nsec);
  return 0;
}
