#include "launcher/nodes/meeting.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/processes.h"
#include "control/key.h"
#include "control/look_up.h"
#include "control/sockets.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
using control::Address;

constexpr auto kLookUpTime = 5s;

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

Status find_own_end(const NodesOptions& options, Meeting& meeting) {
  if (options.local_addr.empty()) return {};
  const std::vector<std::string> own =
      control::own_addresses(options.local_addr, Deadline::in(kLookUpTime));
  if (!own.empty()) meeting.from = Address::numeric(own.front(), 0);
  if (meeting.from) return {};
  return Error{ErrorKind::kUsage, "--local-addr '" + options.local_addr +
                                      "' is no address of this machine; give one of its "
                                      "interfaces, or leave the option out"};
}

Result<UniqueFd> listen(const NodesOptions& options, const Meeting& meeting) {
  const int port = options.endpoint_port;
  if (meeting.on_this_machine) return control::listen_on_this_machine(port);
  if (!meeting.from) return control::listen_everywhere(port);
  return control::listen_at(*Address::numeric(meeting.from->host(), port));
}

bool is_mine(const NodesOptions& options, const Meeting& meeting) {
  if (options.is_host) return *options.is_host;
  // Within one machine all are at the endpoint: the first node leads, where that is known.
  if (meeting.on_this_machine) return options.node_rank.value_or(0) == 0;
  return !control::own_addresses(options.endpoint_host, Deadline::in(kLookUpTime)).empty();
}

}  // namespace

bool is_loopback_host(const std::string& host) {
  if (host == "localhost" || host == "localhost.localdomain" || host == "ip6-localhost")
    return true;
  const auto address = Address::numeric(host, 0);
  return address && address->is_loopback();
}

Result<Meeting> find_meeting(const NodesOptions& options) {
  if (options.endpoint_host == "0.0.0.0" || options.endpoint_host == "::")
    return Error{ErrorKind::kUsage, "endpoint " + options.endpoint_host +
                                        " is no machine's address; give that of the machine whose "
                                        "launcher leads, as the others reach it"};
  Meeting meeting;
  meeting.on_this_machine = is_loopback_host(options.endpoint_host);
  if (!meeting.on_this_machine) LOCKSTEP_TRY(find_tls(options, meeting));
  LOCKSTEP_TRY(find_own_end(options, meeting));
  LOCKSTEP_TRY(look_again(options, meeting));
  return meeting;
}

Status look_again(const NodesOptions& options, Meeting& meeting) {
  if (!is_mine(options, meeting)) return {};
  auto socket = listen(options, meeting);
  if (socket.ok()) {
    meeting.leads = true;
    meeting.doors.push_back({*std::move(socket), meeting.tls, meeting.on_this_machine});
    return {};
  }
  if (options.is_host == true) return socket.error();
  if (!meeting.on_this_machine) meeting.taken = port_holder(options.endpoint_port);
  return {};
}

}  // namespace lockstep::launcher
