#include "base/addresses.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <memory>

#include "base/unique_fd.h"

namespace lockstep {
namespace {

using Found = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// What a look-up needs, for as long as its thread may run.
struct Lookup {
  std::string host;
  addrinfo hints{};
  gaicb request{};
};

Found numeric(const std::string& host, const addrinfo& with) {
  addrinfo hints = with;
  hints.ai_flags |= AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) found = nullptr;
  return {found, &::freeaddrinfo};
}

// A resolver takes its time where name servers do not answer; who does not come back in time is
// left alone.
Found look_up(const std::string& host, const addrinfo& hints, Deadline deadline) {
  auto lookup = std::make_unique<Lookup>();
  lookup->host = host;
  lookup->hints = hints;
  lookup->request.ar_name = lookup->host.c_str();
  lookup->request.ar_request = &lookup->hints;
  gaicb* list[] = {&lookup->request};
  if (::getaddrinfo_a(GAI_NOWAIT, list, 1, nullptr) != 0) return {nullptr, &::freeaddrinfo};
  while (::gai_error(list[0]) == EAI_INPROGRESS && !deadline.passed()) {
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.left()).count();
    const timespec limit{static_cast<std::time_t>(left / 1'000'000'000), left % 1'000'000'000};
    (void)::gai_suspend(list, 1, &limit);
  }
  const int state = ::gai_error(list[0]);
  if (state == EAI_INPROGRESS && ::gai_cancel(list[0]) != EAI_CANCELED) {
    (void)lookup.release();
    return {nullptr, &::freeaddrinfo};
  }
  return {state == 0 ? lookup->request.ar_result : nullptr, &::freeaddrinfo};
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

}  // namespace lockstep
