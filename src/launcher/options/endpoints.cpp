#include "launcher/options/endpoints.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/text.h"
#include "control/address.h"
#include "launcher/options/option_table.h"

namespace lockstep::launcher {
namespace {

constexpr const char* kForm = "; the form is HOST[:PORT], or HOST[:PORT],HOST[:PORT],…";

}  // namespace

Result<std::vector<Endpoint>> parse_endpoints(std::string_view text) {
  std::vector<Endpoint> endpoints;
  const std::vector<std::string> parts = split(text, ',');
  if (parts.size() > kMostEndpoints)
    return misuse(in_quotes(text) + " has " + std::to_string(parts.size()) + " endpoints, limit " +
                  std::to_string(kMostEndpoints) +
                  "; three on machines that do not fail together are enough");
  for (const std::string& part : parts) {
    const std::string_view one = trimmed(part);
    if (one.empty() && parts.size() > 1)
      return misuse("endpoint " + std::to_string(endpoints.size() + 1) + " of " + in_quotes(text) +
                    " is empty" + kForm);
    LOCKSTEP_ASSIGN(auto endpoint, parse_endpoint(one));
    endpoints.push_back(std::move(endpoint));
  }
  return endpoints;
}

Status check_endpoints(const std::vector<MeetingPlace>& places, const std::string& given_as) {
  const std::string list = given_as + " " + in_quotes(text_of(places));
  for (const MeetingPlace& place : places) {
    if (place.port == 0)
      return misuse("port 0 of " + given_as +
                    " is any free one, which the other nodes could not know; give a port");
    if (std::ranges::count(places, place) > 1)
      return misuse(list + " has " + endpoint_text(place.host, place.port) +
                    " twice; each endpoint is a place of its own: leave one of them out");
  }
  const auto is_near = [](const MeetingPlace& place) { return is_loopback_host(place.host); };
  const auto near = std::ranges::find_if(places, is_near);
  const auto far = std::ranges::find_if_not(places, is_near);
  if (near == places.end() || far == places.end()) return {};
  return misuse(list + " has " + in_quotes(near->host) + ", which each machine takes for itself, " +
                "beside " + in_quotes(far->host) +
                "; give addresses that mean the same on all nodes, or loopback ones alone for a "
                "run on this machine");
}

// The store is on the node of rank 0, which need not be the one that leads: it has a port of its
// own.
Status combine_places(Raw& raw) {
  NodesOptions& nodes = raw.options.nodes;
  const std::string given = given_as(raw, "rdzv-endpoint");
  nodes.endpoint_port = raw.rdzv_endpoint->port.value_or(kEndpointPort);
  nodes.places.push_back({nodes.endpoint_host, nodes.endpoint_port});
  for (const Endpoint& one : raw.more_endpoints)
    nodes.places.push_back({one.host, one.port.value_or(kEndpointPort)});
  nodes.is_static = false;
  LOCKSTEP_TRY(check_endpoints(nodes.places, given));
  const auto beside = [&](const std::string& option, const std::string& why) {
    return misuse(given + " " + in_quotes(text_of(nodes.places)) + " is a list, and " +
                  given_as(raw, option) + " " + why);
  };
  if (raw.has("rdzv-backend") && raw.rdzv_backend == "static")
    return beside("rdzv-backend",
                  "static makes one endpoint's port MASTER_PORT; leave it out, or give c10d");
  for (const char* option : {"master-addr", "master-port"})
    if (given_as(raw, option) == "--" + std::string(option) && raw.has(option))
      return beside(option, "is of one endpoint, whose port is MASTER_PORT; leave it out");
  const auto is_stores = [&](const MeetingPlace& place) { return place.port == raw.store_port; };
  if (std::ranges::any_of(nodes.places, is_stores))
    return beside("store-port", std::to_string(raw.store_port) +
                                    " is a port where launchers lead; give the store another one");
  return {};
}

std::string text_of(const std::vector<MeetingPlace>& places) {
  std::string text;
  for (const MeetingPlace& place : places)
    text += (text.empty() ? "" : ",") + endpoint_text(place.host, place.port);
  return text;
}

NodesOptions with_endpoint(const NodesOptions& options, std::size_t place) {
  NodesOptions one = options;
  one.endpoint_host = options.places.at(place).host;
  one.endpoint_port = options.places.at(place).port;
  return one;
}

bool is_loopback_host(const std::string& host) {
  if (host == "localhost" || host == "localhost.localdomain" || host == "ip6-localhost")
    return true;
  const auto address = control::Address::numeric(host, 0);
  return address && address->is_loopback();
}

}  // namespace lockstep::launcher
