#include "launcher/store/master_port.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/endpoint.h"
#include "base/log.h"
#include "base/port.h"
#include "base/processes.h"
#include "control/address.h"
#include "control/look_up.h"
#include "launcher/processes/process.h"

namespace lockstep::launcher {
namespace {

// Scripts connect to the loopback, too, whatever MASTER_ADDR is.
constexpr const char* kLoopback = "127.0.0.1";
constexpr auto kLookUpTime = std::chrono::seconds(5);
constexpr std::size_t kMostClients = 65'536;

std::vector<std::string> and_loopback(std::vector<std::string> addresses) {
  if (std::ranges::find(addresses, kLoopback) == addresses.end() &&
      !control::own_addresses(kLoopback, Deadline::in({})).empty())
    addresses.emplace_back(kLoopback);
  return addresses;
}

// Where the store is to be served; empty: MASTER_ADDR is another machine's.
std::vector<std::string> addresses_for(const std::string& master) {
  std::vector<std::string> addresses = control::own_addresses(master, Deadline::in(kLookUpTime));
  if (!addresses.empty()) return and_loopback(std::move(addresses));
  log_warning("MASTER_ADDR " + master +
              " is no address of this machine: the store is not served by the launcher, rank 0 "
              "has to serve it (TORCHELASTIC_USE_AGENT_STORE=False); " +
              control::addresses_here());
  return {};
}

}  // namespace

Result<MasterPort> MasterPort::open(const LaunchOptions& options, bool plain, Loop& loop) {
  MasterPort port(loop, options.master_port);
  if (plain && options.share_store) port.addresses_ = addresses_for(options.master_addr);
  LOCKSTEP_TRY(port.addresses_.empty() ? port.hold() : port.start_serving());
  return port;
}

Result<MasterPort> MasterPort::open_on_node(const OnNode& node, Loop& loop) {
  const bool shared = node.port != 0 && node.port == node.control_port;
  MasterPort port(loop, shared && !node.share_store ? 0 : node.port);
  port.addresses_ = and_loopback(node.addresses);
  port.adopts_ = shared;
  port.sign_ = node.sign;
  LOCKSTEP_TRY(node.share_store ? port.start_serving() : port.hold());
  return port;
}

int MasterPort::number() const {
  if (held_) return held_->number();
  return adopts_ ? given_ : server_->port();
}

// The launchers' listener is on all addresses, and the store has no key.
void MasterPort::adopt(UniqueFd client) {
  if (!server_ || !adopts_) return;
  const auto at = control::Address::local_of(client.get());
  if (at && std::ranges::find(addresses_, at->host()) != addresses_.end()) {
    const std::string from = comes_from(client.get());
    return server_->adopt(std::move(client), from);
  }
  if (at && !std::exchange(elsewhere_told_, true))
    log_warning("a client of the workers' store was turned away: it came to " + at->text() +
                ", and the store is served at " + endpoint_text(addresses_.front(), given_) +
                " alone, and on " + kLoopback + " of this machine");
}

Status MasterPort::hold() {
  LOCKSTEP_ASSIGN(held_, HeldPort::hold(given_));
  return {};
}

Status MasterPort::start_serving() {
  // The other half is for logs, pipes and the like.
  limits_.clients = std::min(use_all_descriptors() / 2, kMostClients);
  LOCKSTEP_ASSIGN(server_, serve());
  return {};
}

Result<std::unique_ptr<store::Server>> MasterPort::serve() const {
  auto server = adopts_ ? store::Server::without_listener(*loop_, limits_)
                        : store::Server::listen(*loop_, addresses_, given_, limits_);
  if (server.ok()) (*server)->recognize_by(sign_);
  if (server.ok() || adopts_) return server;
  const std::string taken = given_ == 0 ? "" : port_holder(given_) + kOtherPort;
  return Error{server.error().kind, "the workers' store: " + server.error().message + taken};
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
