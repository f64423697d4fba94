// The driver's library, of a machine with FAKE_GPUS GPUs: it is found before the real one where
// LD_LIBRARY_PATH begins with its folder. FAKE_NVML_CODE is what asking for the number gives, or,
// where there are none, the start; -1: the process ends. Like the real one (driver 580) it leaves a
// thread behind that takes the process's signals.
#include <unistd.h>

#include <cstdlib>
#include <thread>

namespace {
int code_or(int other) {
  const char* text = std::getenv("FAKE_NVML_CODE");
  const int code = text == nullptr ? other : std::atoi(text);
  if (code < 0) ::_exit(0);
  return code;
}
}  // namespace

extern "C" {
int nvmlInit_v2();
int nvmlShutdown();
int nvmlDeviceGetCount_v2(unsigned* count);

int nvmlInit_v2() {
  constexpr int kDriverNotLoaded = 9;
  if (std::getenv("FAKE_GPUS") == nullptr) return code_or(kDriverNotLoaded);
  std::thread([] {
    while (true) ::pause();
  }).detach();
  return 0;
}
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(std::atoi(std::getenv("FAKE_GPUS")));
  return code_or(0);
}
}
