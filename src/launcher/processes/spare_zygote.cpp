#include "launcher/processes/spare_zygote.h"

#include <chrono>
#include <utility>

#include "base/log.h"
#include "coord/channel.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

constexpr int kMostAsked = 100;  // what kills each at once would keep us busy for ever

}  // namespace

void SpareZygote::ask(int socket) {
  if (zygote_.socket || asked_ >= kMostAsked) return;
  auto ends = coord::make_channel();
  if (!ends.ok()) return log_debug("spare zygote: " + ends.error().message);
  ++asked_;
  const int descriptors[] = {ends->second.get()};
  const auto sent =
      coord::send(socket, coord::message::ForkZygote{kRequest}, Deadline::in(0s), descriptors);
  if (!sent.ok()) return log_debug("spare zygote: " + sent.error().message);
  zygote_.socket = std::move(ends->first);
}

void SpareZygote::forked(pid_t pid) {
  zygote_.pid = pid;
  if (pid < 0) zygote_ = {};
}

void SpareZygote::forget_unless_forked() {
  if (zygote_.pid <= 0) zygote_ = {};
}

bool SpareZygote::ended(pid_t pid) {
  if (pid != zygote_.pid) return false;
  zygote_ = {};
  return true;
}

std::optional<Zygote> SpareZygote::take() {
  Zygote taken = std::exchange(zygote_, {});
  if (!is_child(taken.pid)) return std::nullopt;  // its end came before the answer
  return taken;
}

}  // namespace lockstep::launcher
