#include "launcher/nodes/endpoint_here.h"

#include <strings.h>

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/listed.h"
#include "control/look_up.h"

namespace lockstep::launcher {
namespace {

using control::Address;

constexpr const char* kGiveOneMachine =
    "; give the address of the machine whose launcher leads, as the others reach it";

std::string hosts_of(const std::vector<Address>& addresses) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> hosts;
  for (std::size_t i = 0; i < std::min(addresses.size(), kMost); ++i)
    hosts.push_back(addresses[i].host());
  return listed(hosts, addresses.size());
}

std::string first_label(const std::string& name) { return name.substr(0, name.find('.')); }

bool is_loopback(const Address& address) { return address.is_loopback(); }

}  // namespace

EndpointHere look_for_endpoint(const std::string& host, Deadline deadline) {
  EndpointHere found;
  for (const Address& address : control::addresses_by(deadline, host))
    (control::is_own(address) ? found.own : found.others).push_back(address);
  return found;
}

Status check_endpoint_here(const NodesOptions& options, const EndpointHere& endpoint) {
  const std::string& host = options.endpoint_host;
  for (const auto* list : {&endpoint.own, &endpoint.others})
    for (const Address& address : *list) {
      const std::string kind = control::kind_of_no_machine(address);
      if (kind.empty()) continue;
      const std::string numeric = address.host();
      return misuse("endpoint " + host + (numeric == host ? "" : " (" + numeric + ")") +
                    " is no machine's address (" + kind + ")" + kGiveOneMachine);
    }
  if (options.is_host || endpoint.own.empty() || endpoint.others.empty()) return {};
  return Error{
      ErrorKind::kUnavailable,  // an earlier pod's may be among them, for a while
      "endpoint '" + host + "' leads to " +
          std::to_string(endpoint.own.size() + endpoint.others.size()) + " addresses: " +
          hosts_of(endpoint.own) + " of this machine, and " + hosts_of(endpoint.others) +
          " of others, which may lead as well. Give the name or the address of one node on "
          "all of them (of a Kubernetes Job train-0.train, not train). If all of them are "
          "this machine's: --rdzv-conf is_host=true here, is_host=false on the others"};
}

Status check_local_addr(const NodesOptions& options, const Address& local,
                        const EndpointHere& endpoint) {
  const std::string given = "--local-addr '" + options.local_addr + "'";
  if (local.is_loopback())
    return misuse(given +
                  " is the loopback, where no other machine reaches this one, and the "
                  "endpoint " +
                  options.endpoint_host +
                  " is of several machines; give one of this machine's other addresses, or leave "
                  "the option out");
  if (!endpoint.own.empty() || endpoint.others.empty()) return {};
  const auto is_same = [&](const Address& other) { return other.family() == local.family(); };
  if (std::ranges::any_of(endpoint.others, is_same)) return {};
  const bool is_four = local.family() == AF_INET;
  return misuse(given + " is of IPv" + (is_four ? "4" : "6") + ", and the endpoint " +
                options.endpoint_host + " of IPv" + (is_four ? "6" : "4") + " (" +
                hosts_of(endpoint.others) +
                "): there is no way from one to the other; give both of one family, or leave "
                "--local-addr out");
}

std::string doubt_of_endpoint(const NodesOptions& options, const EndpointHere& endpoint,
                              const std::string& own_name) {
  const std::string& host = options.endpoint_host;
  const bool is_loopback_alone = !endpoint.own.empty() && endpoint.others.empty() &&
                                 std::ranges::all_of(endpoint.own, is_loopback);
  const std::string label = first_label(host), own_label = first_label(own_name);
  if (!is_loopback_alone || options.is_host || ::strcasecmp(label.c_str(), own_label.c_str()) == 0)
    return "";
  return "'" + host + "' leads to " + hosts_of(endpoint.own) + " on this machine, whose name is '" +
         own_name +
         "', so this launcher leads. If each node has it so (in /etc/hosts), each leads and waits "
         "for the others: then give the address of one of them";
}

}  // namespace lockstep::launcher
