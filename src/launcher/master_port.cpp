#include "launcher/master_port.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/addresses.h"
#include "base/log.h"
#include "base/processes.h"
#include "launcher/processes/process.h"

namespace lockstep::launcher {
namespace {

// Scripts connect to the loopback, too, whatever MASTER_ADDR is.
constexpr const char* kLoopback = "127.0.0.1";
constexpr auto kLookUpTime = std::chrono::seconds(5);
constexpr std::size_t kMostClients = 65'536;

// Where the store is to be served; empty: MASTER_ADDR is another machine's.
std::vector<std::string> addresses_for(const std::string& master) {
  std::vector<std::string> addresses = own_addresses(master, Deadline::in(kLookUpTime));
  if (addresses.empty()) {
    log_warning("MASTER_ADDR " + master +
                " is no address of this machine: the store is not served by the launcher, rank 0 "
                "has to serve it (TORCHELASTIC_USE_AGENT_STORE=False)");
  } else if (std::ranges::find(addresses, kLoopback) == addresses.end() &&
             !own_addresses(kLoopback, Deadline::in({})).empty()) {
    addresses.emplace_back(kLoopback);
  }
  return addresses;
}

}  // namespace

Result<MasterPort> MasterPort::open(const LaunchOptions& options, bool plain, Loop& loop) {
  MasterPort port(loop, options.master_port);
  if (plain && options.share_store) port.addresses_ = addresses_for(options.master_addr);
  if (port.addresses_.empty()) {
    LOCKSTEP_ASSIGN(port.held_, HeldPort::hold(port.given_));
    return port;
  }
  // The other half is for logs, pipes and the like.
  port.limits_.clients = std::min(use_all_descriptors() / 2, kMostClients);
  LOCKSTEP_ASSIGN(port.server_, port.serve());
  return port;
}

Result<std::unique_ptr<store::Server>> MasterPort::serve() const {
  auto server = store::Server::listen(*loop_, addresses_, given_, limits_);
  if (server.ok() || given_ == 0) return server;
  return Error{server.error().kind,
               "the workers' store: " + server.error().message + port_holder(given_) + kOtherPort};
}

void MasterPort::begin_anew() {
  if (held_) {
    // The old workers' connections may linger on the old port.
    if (auto port = HeldPort::hold(given_); port.ok())
      held_ = std::move(*port);
    else
      log_warning(port.error().message);
    return;
  }
  auto fresh = given_ == 0 ? serve() : Error{};
  if (fresh.ok())
    server_ = *std::move(fresh);
  else
    server_->begin_anew();
}

}  // namespace lockstep::launcher
