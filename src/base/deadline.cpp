#include "base/deadline.h"

#include <ctime>

namespace lockstep {

void pause(std::chrono::nanoseconds time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  const timespec wanted{seconds.count(), (time - seconds).count()};
  ::nanosleep(&wanted, nullptr);
}

}  // namespace lockstep
