#include "launcher/nodes/meeting.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/endpoint.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/processes.h"
#include "control/key.h"
#include "control/look_up.h"
#include "control/sockets.h"
#include "coord/version.h"
#include "launcher/output/host_name.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
using control::Address;

constexpr auto kLookUpFor = 5s;
// A signal waits for it. Where it takes longer, the dials show whether the endpoint is here.
constexpr auto kLookUpSoon = 1s;
constexpr const char* kOwnWorkersAddress = "127.0.0.1";

Status find_tls(const NodesOptions& options, Meeting& meeting) {
  LOCKSTEP_ASSIGN(
      auto found,
      control::find_key(options.key_file.empty() ? std::nullopt : std::optional(options.key_file),
                        process_environment()));
  if (!found.said.empty()) log_warning(found.said);
  if (!found.key) return {};
  LOCKSTEP_ASSIGN(meeting.tls, control::TlsSettings::of(*found.key));
  return {};
}

Status find_own_end(const NodesOptions& options, const EndpointHere& endpoint, Meeting& meeting) {
  if (options.local_addr.empty()) return {};
  const std::vector<std::string> own =
      control::own_addresses(options.local_addr, Deadline::in(kLookUpFor));
  for (const std::string& host : own) {
    const auto address = Address::numeric(host, 0);
    if (!meeting.from || (meeting.from->is_loopback() && !meeting.on_this_machine))
      meeting.from = address;
  }
  if (meeting.from && meeting.on_this_machine) return {};
  if (meeting.from) return check_local_addr(options, *meeting.from, endpoint);
  return Error{ErrorKind::kUsage, "--local-addr '" + options.local_addr +
                                      "' is no address of this machine; give one of its own, or "
                                      "leave the option out: " +
                                      control::addresses_here()};
}

Result<UniqueFd> listen(const NodesOptions& options, const Meeting& meeting) {
  const int port = options.endpoint_port;
  if (meeting.on_this_machine) return control::listen_on_this_machine(port);
  if (!meeting.from) return control::listen_everywhere(port);
  return control::listen_at(*Address::numeric(meeting.from->host(), port));
}

// The others dial the endpoint, whatever --local-addr is.
Status listen_at_endpoint(const NodesOptions& options, Meeting& meeting) {
  if (!meeting.from || meeting.on_this_machine) return {};
  for (const Address& own : meeting.endpoint.own) {
    if (own.is_loopback() || own.same_host(*meeting.from)) continue;
    auto socket = control::listen_at(*Address::numeric(own.host(), options.endpoint_port));
    if (!socket.ok())
      return Error{socket.error().kind,
                   "the endpoint: " + socket.error().message + port_holder(options.endpoint_port)};
    meeting.sockets.push_back({*std::move(socket), meeting.tls, false});
  }
  return {};
}

// The store at the launchers' port is on 127.0.0.1, too, whatever --local-addr is.
Status listen_for_own_workers(const NodesOptions& options, Meeting& meeting) {
  if (!options.is_static || !meeting.from || meeting.from->host() == kOwnWorkersAddress) return {};
  if (control::own_addresses(kOwnWorkersAddress, Deadline::in(0s)).empty()) return {};
  auto socket = control::listen_at(*Address::numeric(kOwnWorkersAddress, options.endpoint_port));
  if (!socket.ok())
    return Error{socket.error().kind, "the workers' store: " + socket.error().message +
                                          port_holder(options.endpoint_port)};
  meeting.sockets.push_back({*std::move(socket), meeting.tls, false});
  return {};
}

// As far as it is known without the endpoint's addresses. Within one machine all launchers
// are at the endpoint: the first node leads.
bool may_lead(const NodesOptions& options, const Meeting& meeting) {
  if (options.is_host) return *options.is_host;
  if (!options.places.empty()) return true;
  return !meeting.on_this_machine || options.node_rank.value_or(0) == 0;
}

// Nobody listens there, and yet the port is not to be had: told once. What is in the way may go,
// unless it is a permission.
Status cannot_listen(const NodesOptions& options, const Error& error, Meeting& meeting) {
  const std::string remedy = "; give the endpoint another port, the same one on all nodes";
  if (error.kind == ErrorKind::kUsage) return misuse("the endpoint: " + error.message + remedy);
  if (!meeting.cannot_listen.empty()) return {};
  meeting.cannot_listen = error.message + port_holder(options.endpoint_port);
  log_warning("endpoint " + endpoint_text(options.endpoint_host, options.endpoint_port) +
              " is this machine's, and this launcher cannot lead there: " + meeting.cannot_listen +
              remedy + ", or free it here: it is tried again");
  return {};
}

// `is_refused`: this machine has refused a dial, so no other launcher led here.
Status listen_as_leader(const NodesOptions& options, Meeting& meeting, bool is_refused = false) {
  auto socket = listen(options, meeting);
  if (socket.ok()) {
    meeting.leads = true;
    meeting.taken.clear();
    meeting.cannot_listen.clear();
    meeting.sockets.push_back({*std::move(socket), meeting.tls, meeting.on_this_machine});
    LOCKSTEP_TRY(listen_at_endpoint(options, meeting));
    return listen_for_own_workers(options, meeting);
  }
  if (!meeting.on_this_machine && (is_refused || meeting.taken.empty()))
    meeting.taken = port_listener(options.endpoint_port);
  const bool is_forbidden = socket.error().kind == ErrorKind::kUsage;
  const bool is_nobodys = is_refused && !meeting.on_this_machine && meeting.taken.empty();
  if (options.is_host == true ? is_forbidden : is_nobodys)
    return cannot_listen(options, socket.error(), meeting);
  meeting.cannot_listen.clear();
  if (options.is_host != true) return {};
  const std::string by = port_holder(options.endpoint_port);
  return Error{socket.error().kind, socket.error().message + (meeting.on_this_machine ? "" : by) +
                                        "; where another launcher leads on this machine, leave "
                                        "--rdzv-conf is_host=true out"};
}

}  // namespace

star::message::Hello hello_of(const LaunchOptions& options) {
  star::message::Hello hello;
  hello.run_id = options.run_id;
  hello.version =
      std::string(LOCKSTEP_VERSION) + " (protocol " + std::to_string(coord::kProtocolVersion) + ")";
  hello.host = host_name();
  hello.nodes = options.nodes.nnodes;
  hello.max_restarts = options.max_restarts;
  hello.rank_given = options.nodes.node_rank.has_value();
  hello.endpoints = text_of(options.nodes.places);
  return hello;
}

Result<Meeting> find_meeting(const NodesOptions& options) {
  Meeting meeting;
  meeting.on_this_machine = is_loopback_host(options.endpoint_host);
  if (!meeting.on_this_machine) {
    const auto time = options.is_host ? kLookUpFor : kLookUpSoon;
    meeting.endpoint = look_for_endpoint(options.endpoint_host, Deadline::in(time));
    LOCKSTEP_TRY(check_endpoint_here(options, meeting.endpoint));
    LOCKSTEP_TRY(find_tls(options, meeting));
  }
  LOCKSTEP_TRY(find_own_end(options, meeting.endpoint, meeting));
  if (!options.places.empty() || !may_lead(options, meeting)) return meeting;
  const bool is_here = meeting.on_this_machine || !meeting.endpoint.own.empty();
  if (const std::string doubt = doubt_of_endpoint(options, meeting.endpoint, host_name());
      !doubt.empty())
    log_warning(doubt);
  if (!is_here && options.is_host == true)
    log_warning("this launcher leads, as --rdzv-conf is_host=true says, though '" +
                options.endpoint_host +
                "' is no address of this machine: the others dial that one, and find this launcher "
                "only if it leads here. Give is_host=true on the endpoint's machine alone, or "
                "leave it out (" +
                control::addresses_here() + ")");
  if (is_here || options.is_host == true) LOCKSTEP_TRY(listen_as_leader(options, meeting));
  return meeting;
}

Result<int> find_own_place(const NodesOptions& options) {
  const std::size_t count = options.places.size();
  int own = -1;
  if (is_loopback_host(options.places.front().host)) {
    own = options.node_rank.value_or(0) % static_cast<int>(count);
  } else {
    const Deadline soon = Deadline::in(kLookUpSoon);
    for (std::size_t place = 0; place < count; ++place) {
      const EndpointHere here = look_for_endpoint(options.places[place].host, soon);
      LOCKSTEP_TRY(check_endpoint_here(with_endpoint(options, place), here));
      if (own < 0 && !here.own.empty()) own = static_cast<int>(place);
    }
  }
  return options.is_host == false ? -1 : own;
}

Status look_again(const NodesOptions& options, Meeting& meeting) {
  return may_lead(options, meeting) ? listen_as_leader(options, meeting, true) : Status();
}

std::string listens_at(const NodesOptions& options, const Meeting& meeting) {
  const auto address = Address::local_of(meeting.sockets.front().socket.get());
  return address ? address->text() : endpoint_text("this machine", options.endpoint_port);
}

std::vector<std::string> would_listen_at(const NodesOptions& options, const Meeting& meeting) {
  const int port = options.endpoint_port;
  if (meeting.on_this_machine) return {endpoint_text("this machine", port)};
  if (meeting.from) return {endpoint_text(meeting.from->host(), port)};
  return {endpoint_text("::", port), endpoint_text("0.0.0.0", port)};  // the latter without IPv6
}

std::string leads_at(const NodesOptions& options, const Meeting& meeting) {
  const std::string at = endpoint_text(options.endpoint_host, options.endpoint_port);
  if (meeting.on_this_machine)
    return "; this launcher leads at " + at + ", for launchers of this machine alone";
  std::string own;
  for (const Address& address : meeting.endpoint.own)
    if (address.host() != options.endpoint_host)
      own += (own.empty() ? " (here " : ", ") + address.host();
  return "; this launcher leads at " + at + (own.empty() ? "" : own + ")") +
         ": give the others this endpoint, and see that it leads to this machine there";
}

std::string who_leads(const NodesOptions& options, const Meeting& meeting,
                      const control::Failure& failure) {
  if (!meeting.cannot_listen.empty() && failure.by_this_machine)
    return "; this one is to lead: " + meeting.cannot_listen;
  if (!meeting.taken.empty()) return meeting.taken;
  const bool is_refused = failure.outcome == control::Outcome::kRefused;
  const bool is_silent = failure.outcome == control::Outcome::kDropped ||
                         failure.outcome == control::Outcome::kUnreachable;
  const bool is_elsewhere = !meeting.on_this_machine && !failure.by_this_machine;
  // Who has mistaken an address, or a name, for this machine's sees it here.
  if (is_elsewhere && is_silent) return "; the endpoint is not here: " + control::addresses_here();
  if (is_elsewhere && is_refused)
    return "; the launcher of that machine leads: start it there, with the same endpoint; " +
           control::addresses_here();
  if (!is_refused) return "";
  if (options.is_host == false)
    return "; that is this machine, and this launcher leads nobody (--rdzv-conf is_host=false): "
           "start the one that leads here, without is_host=false";
  if (meeting.on_this_machine && !may_lead(options, meeting))
    return "; node 0 leads, and this one has --node-rank " + std::to_string(*options.node_rank) +
           ": start one with --node-rank 0 on this machine, with the same endpoint";
  return "";
}

}  // namespace lockstep::launcher
