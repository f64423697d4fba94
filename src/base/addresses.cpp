#include "base/addresses.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/signals_blocked.h"
#include "base/unique_fd.h"

namespace lockstep {
namespace {

using Found = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// Shared with the thread that looks up, which may come back after nobody waits any more.
struct Lookup {
  std::mutex mutex;
  std::condition_variable over;
  bool is_over = false;
  Found found{nullptr, &::freeaddrinfo};
};

Found numeric(const std::string& host, const addrinfo& with) {
  addrinfo hints = with;
  hints.ai_flags |= AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) found = nullptr;
  return {found, &::freeaddrinfo};
}

void look_up_there(const std::shared_ptr<Lookup>& lookup, const std::string& host,
                   const addrinfo& hints) {
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) found = nullptr;
  const std::lock_guard lock(lookup->mutex);
  lookup->found.reset(found);
  lookup->is_over = true;
  lookup->over.notify_one();
}

// A resolver takes its time where name servers do not answer, and cannot be stopped.
Found look_up(const std::string& host, const addrinfo& hints, Deadline deadline) {
  const auto lookup = std::make_shared<Lookup>();
  try {
    const SignalsBlocked blocked;
    std::thread(look_up_there, lookup, host, hints).detach();
  } catch (const std::system_error&) {  // no more threads: not found
    return {nullptr, &::freeaddrinfo};
  }
  std::unique_lock lock(lookup->mutex);
  lookup->over.wait_until(lock, deadline.point(), [&] { return lookup->is_over; });
  return std::exchange(lookup->found, Found(nullptr, &::freeaddrinfo));
}

bool can_be_bound(const addrinfo& address) {
  const UniqueFd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return fd && ::bind(fd.get(), address.ai_addr, address.ai_addrlen) == 0;
}

std::string text_of(const addrinfo& address) {
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(address.ai_addr, address.ai_addrlen, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0)
    return "";
  const std::string host = text.data();
  if (host == "0.0.0.0") return "127.0.0.1";
  return host == "::" ? "::1" : host;
}

}  // namespace

std::vector<std::string> own_addresses(const std::string& host, Deadline deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  Found found = numeric(host, hints);
  if (!found) found = look_up(host, hints, deadline);
  std::vector<std::string> own;
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    const std::string text = can_be_bound(*one) ? text_of(*one) : "";
    if (!text.empty() && std::ranges::find(own, text) == own.end()) own.push_back(text);
  }
  return own;
}

int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

}  // namespace lockstep
