#include "control/look_up.h"

#include <netdb.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/signals_blocked.h"

namespace lockstep::control {
namespace {

std::atomic<int>& running_look_ups() {
  static std::atomic<int> count{0};
  return count;
}

Error no_address(const std::string& host, const std::string& why) {
  return {ErrorKind::kUnavailable, "'" + host + "' leads to no address: " + why};
}

}  // namespace

// A resolver takes its time where name servers do not answer, and cannot be stopped.
std::vector<Address> addresses_by(Deadline deadline, const std::string& host) {
  if (const auto numeric = Address::numeric(host, 0)) return {*numeric};
  auto loop = Loop::open();
  if (!loop.ok()) return {};
  std::optional<Result<std::vector<Address>>> found;
  const auto look_up = LookUp::start(*loop, host, 0, find_addresses,
                                     [&](const auto& answer) { found.emplace(answer); });
  while (look_up.ok() && !found && !deadline.passed()) loop->run_once(deadline);
  return found && found->ok() ? **std::move(found) : std::vector<Address>();
}

std::vector<std::string> own_addresses(const std::string& host, Deadline deadline) {
  std::vector<std::string> own;
  for (const Address& address : addresses_by(deadline, host)) {
    if (!is_own(address)) continue;
    std::string text = address.host();
    if (text == "0.0.0.0") text = "127.0.0.1";
    if (text == "::") text = "::1";
    if (std::ranges::find(own, text) == own.end()) own.push_back(std::move(text));
  }
  return own;
}

struct LookUp::Answer {
  UniqueFd bell;
  std::mutex mutex;
  std::optional<Result<std::vector<Address>>> addresses;

  void give(Result<std::vector<Address>> found) {
    const std::lock_guard lock(mutex);
    addresses.emplace(std::move(found));
    ::eventfd_write(bell.get(), 1);
  }
};

Result<std::vector<Address>> find_addresses(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (code != 0)
    return no_address(host, code == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
  std::vector<Address> found;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    const auto address = Address::of(entry->ai_addr, entry->ai_addrlen);
    if (address && std::ranges::find(found, *address) == found.end()) found.push_back(*address);
  }
  if (found.empty()) return no_address(host, "it has none of IPv4 or IPv6");
  return found;
}

Result<std::unique_ptr<LookUp>> LookUp::start(Loop& loop, const std::string& host, int port,
                                              FindAddresses find, Done done) {
  auto answer = std::make_shared<Answer>();
  answer->bell.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!answer->bell)
    return Error{ErrorKind::kUnavailable, std::string("eventfd: ") + std::strerror(errno)};
  LOCKSTEP_TRY(loop.add(answer->bell.get(), [answer, done = std::move(done)] {
    std::optional<Result<std::vector<Address>>> found;
    {
      const std::lock_guard lock(answer->mutex);
      eventfd_t times = 0;
      ::eventfd_read(answer->bell.get(), &times);
      found.swap(answer->addresses);
    }
    if (found) done(*found);
  }));
  std::unique_ptr<LookUp> look_up(new LookUp(loop, answer));
  if (const auto numeric = Address::numeric(host, port)) {
    answer->give(std::vector{*numeric});
    return look_up;
  }
  // No name has a colon, so it is a zone that is not there.
  if (host.find(':') != std::string::npos) {
    answer->give(no_address(host, "what follows its '%' is no interface of this machine"));
    return look_up;
  }
  if (running_look_ups().fetch_add(1) >= kMostLookUps) {
    running_look_ups().fetch_sub(1);
    return no_address(host, std::to_string(kMostLookUps) + " look-ups are not answered yet");
  }
  const SignalsBlocked blocked;
  try {
    std::thread([answer, find = std::move(find), host, port] {
      answer->give(find(host, port));
      running_look_ups().fetch_sub(1);
    }).detach();
  } catch (const std::system_error& error) {
    running_look_ups().fetch_sub(1);
    return no_address(host, std::string("no thread to look it up: ") + error.what());
  }
  return look_up;
}

LookUp::~LookUp() { loop_.remove(answer_->bell.get()); }

}  // namespace lockstep::control
