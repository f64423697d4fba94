// The driver's library, of a machine with FAKE_GPUS GPUs: it is found before the real one where
// LD_LIBRARY_PATH begins with its folder. Like the real one (driver 580) it leaves a thread behind
// that takes the process's signals.
#include <unistd.h>

#include <cstdlib>
#include <thread>

extern "C" {
int nvmlInit_v2();
int nvmlShutdown();
int nvmlDeviceGetCount_v2(unsigned* count);

int nvmlInit_v2() {
  if (std::getenv("FAKE_GPUS") == nullptr) return 9;  // the driver is not loaded
  std::thread([] {
    while (true) ::pause();
  }).detach();
  return 0;
}
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(std::atoi(std::getenv("FAKE_GPUS")));
  return 0;
}
}
