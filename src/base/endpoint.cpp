#include "base/endpoint.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>

#include "base/errors.h"
#include "base/text.h"

namespace lockstep {
namespace {

constexpr int kMostPort = 65'535;

// With a zone, as in fe80::1%eth0.
bool is_ipv6(std::string_view text) {
  const std::size_t zone = text.find('%');
  if (zone != std::string_view::npos && zone + 1 == text.size()) return false;
  in6_addr address{};
  return ::inet_pton(AF_INET6, std::string(text.substr(0, zone)).c_str(), &address) == 1;
}

// Letters of any alphabet: resolvers may know such names.
bool is_host(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '%' || c >= 0x80;
  });
}

}  // namespace

Result<Endpoint> parse_endpoint(std::string_view text) {
  const auto wrong = [&](const std::string& why) {
    return misuse("'" + std::string(text) + "' " + why +
                  "; the form is HOST, HOST:PORT or [IPV6]:PORT");
  };
  std::string_view host = text, port;
  bool has_port = false;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos || !is_ipv6(text.substr(1, end - 1)))
      return wrong("has no IPv6 address in its brackets");
    host = text.substr(1, end - 1);
    port = text.substr(end + 1);
    if (!port.empty() && !port.starts_with(':')) return wrong("goes on after its brackets");
    has_port = !port.empty();
    if (has_port) port.remove_prefix(1);
  } else if (!is_ipv6(text)) {
    const std::size_t colon = text.find(':');
    if (colon != std::string_view::npos && text.find(':', colon + 1) != std::string_view::npos)
      return wrong("has several colons and is no IPv6 address (one with a port is in brackets)");
    has_port = colon != std::string_view::npos;
    host = text.substr(0, colon);
    if (has_port) port = text.substr(colon + 1);
    if (!is_host(host)) return wrong(host.empty() ? "has no host" : "has no host name");
  }
  Endpoint endpoint{std::string(host), std::nullopt};
  if (!has_port) return endpoint;
  endpoint.port = number_of<int>(port);
  if (!endpoint.port || *endpoint.port < 0 || *endpoint.port > kMostPort || port.starts_with('-'))
    return wrong("has no port from 0 to 65535 after its colon");
  return endpoint;
}

std::string endpoint_text(const std::string& host, int port) {
  const bool six = host.find(':') != std::string::npos;
  return (six ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace lockstep
