// HOST, HOST:PORT, [IPV6]:PORT, [IPV6] or a bare IPv6 address.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lockstep/status.h"

namespace lockstep {

struct Endpoint {
  std::string host;         // without brackets; not empty
  std::optional<int> port;  // 0 to 65535
};

// kUsage: no host, no port after a colon, a port that is none, brackets around no IPv6 address. A
// name is not looked up.
Result<Endpoint> parse_endpoint(std::string_view text);

// The other way: [IPV6]:PORT, HOST:PORT.
std::string endpoint_text(const std::string& host, int port);

}  // namespace lockstep
