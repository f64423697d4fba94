#include "worker/meeting.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>

#include "base/endpoint.h"
#include "base/errors.h"
#include "base/text.h"
#include "coord/descriptors.h"
#include "coord/table.h"

namespace lockstep::worker {
namespace {

constexpr int kFromEnvironment = -1;
constexpr const char* kLoopback = "127.0.0.1";
constexpr const char* kWaitVariable = "LOCKSTEP_INIT_TIMEOUT";
constexpr std::chrono::seconds kWait{300};
constexpr std::chrono::minutes kMostWait{30};  // as long as who is ready waits for the table

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

struct Place {
  std::string host, port;
};

// "tcp://HOST:PORT", "tcp://[::1]:PORT"
Result<Place> parse(const std::string& address) {
  const std::string form =
      "the address to meet at is '" + address + "'; it must be tcp://HOST:PORT";
  constexpr std::string_view kScheme = "tcp://";
  if (!address.starts_with(kScheme))
    return misuse(form +
                  (address.starts_with("file://") ? ": meeting by a file is not supported" : ""));
  std::string_view rest = std::string_view(address).substr(kScheme.size());
  rest = rest.substr(0, rest.find_first_of("/?"));
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return misuse(form);
  std::string_view host = rest.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return Place{std::string(host), std::string(rest.substr(colon + 1))};
}

// Of an interface's address, or one that it is looked up by.
std::string number_of_host(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET) {
    const in_addr& v4 = reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
    const std::uint32_t value = ntohl(v4.s_addr);
    if (value >> 24 == 127 || value == INADDR_ANY) return kLoopback;
    return ::inet_ntop(AF_INET, &v4, text.data(), text.size());
  }
  if (address->sa_family != AF_INET6) return "";
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  if (IN6_IS_ADDR_LOOPBACK(&v6) || IN6_IS_ADDR_UNSPECIFIED(&v6)) return kLoopback;
  return ::inet_ntop(AF_INET6, &v6, text.data(), text.size());
}

bool is_own(const std::string& host) {
  if (host == kLoopback) return true;
  ifaddrs* interfaces = nullptr;
  if (::getifaddrs(&interfaces) != 0) return false;
  bool own = false;
  for (const ifaddrs* each = interfaces; each != nullptr; each = each->ifa_next)
    own = own || (each->ifa_addr != nullptr && number_of_host(each->ifa_addr) == host);
  ::freeifaddrs(interfaces);
  return own;
}

// The first of its addresses that is this machine's.
Result<std::string> own_host(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); code != 0)
    return misuse("the address to meet at has the host '" + host +
                  "', which cannot be found: " + ::gai_strerror(code));
  std::string own, first;
  for (const addrinfo* each = found; each != nullptr && own.empty(); each = each->ai_next) {
    const std::string number = number_of_host(each->ai_addr);
    if (first.empty()) first = number;
    if (is_own(number)) own = number;
  }
  ::freeaddrinfo(found);
  if (!own.empty()) return own;
  return misuse("the address to meet at has the host '" + host + "'" +
                (first == host ? "" : " (" + first + ")") +
                ", which is another machine: ranks that are started by hand meet on one machine "
                "alone; on several, 'lockstep run --nnodes' starts them");
}

// How long the first start waits for all ranks.
Result<std::chrono::milliseconds> wait_of(const Rendezvous& wish) {
  using std::chrono::milliseconds;
  if (wish.wait) {
    if (*wish.wait >= milliseconds(1) && *wish.wait <= kMostWait) return *wish.wait;
    return misuse("the first start would wait for the other ranks " +
                  std::to_string(wish.wait->count()) + " ms; 1 ms to 30 minutes are possible");
  }
  const std::string text = variable(kWaitVariable);
  if (text.empty()) return milliseconds(kWait);
  const std::chrono::seconds wait(number_of<int>(text).value_or(0));
  if (wait >= std::chrono::seconds(1) && wait <= kMostWait) return milliseconds(wait);
  return misuse(std::string(kWaitVariable) + " is '" + text +
                "'; it is how long the first start waits for all ranks: a whole number of "
                "seconds, 1 to " +
                std::to_string(std::chrono::seconds(kMostWait).count()));
}

Result<Meeting> meeting_at(const Place& place, const Rendezvous& wish) {
  const int port = number_of<int>(place.port).value_or(0);
  if (port < 1 || port > 65'535)
    return misuse("the address to meet at has the port '" + place.port +
                  "'; 1 to 65535 are possible");
  LOCKSTEP_ASSIGN(const std::chrono::milliseconds wait, wait_of(wish));
  LOCKSTEP_ASSIGN(std::string host, own_host(place.host));
  return Meeting{std::move(host), port, wish.rank, wish.world_size, wait};
}

Status check_ranks(const Rendezvous& wish) {
  if (wish.world_size < 1 || wish.world_size > static_cast<int>(coord::kMaxWorkers))
    return misuse("the number of ranks (world size) is " + std::to_string(wish.world_size) +
                  "; 1 to " + std::to_string(coord::kMaxWorkers) + " are possible");
  if (wish.rank == kFromEnvironment)
    return misuse("there are " + std::to_string(wish.world_size) +
                  " ranks, and nothing says which of them this process is: give each its own "
                  "(--rank, or RANK), 0 to " +
                  std::to_string(wish.world_size - 1));
  if (wish.rank < 0 || wish.rank >= wish.world_size)
    return misuse("the rank is " + std::to_string(wish.rank) + ", and of " +
                  std::to_string(wish.world_size) + " ranks there are 0 to " +
                  std::to_string(wish.world_size - 1));
  return {};
}

bool has_address() { return !variable("MASTER_ADDR").empty() && !variable("MASTER_PORT").empty(); }

// torch's env://, whole or not at all.
Result<std::optional<Rendezvous>> from_environment() {
  const std::string rank = variable("RANK"), world = variable("WORLD_SIZE");
  if (!variable("TORCHELASTIC_RUN_ID").empty()) {
    const std::string plain = variable(coord::kPlainVariable);
    if (!plain.empty() && !rank.empty() && !world.empty())
      return misuse(
          "this program links Lockstep, and 'lockstep run' could not see it: it started '" + plain +
          "', and neither that file nor a library that it needs has Lockstep's "
          "note. So this process would train alone, as each of " +
          world + ". If '" + plain +
          "' is a wrapper, a debugger, or opens the library itself "
          "(dlopen), say so: lockstep run --linked ... " +
          plain + " ...; or unset RANK and WORLD_SIZE, and it trains alone");
    if (rank.empty() || world.empty() || world == "1") return std::optional<Rendezvous>();
    return misuse("this process is rank " + rank + " of " + world +
                  " of another launcher (TORCHELASTIC_RUN_ID is set): let 'lockstep run "
                  "--nproc-per-node N PROGRAM ...' start it "
                  "itself; or unset RANK and WORLD_SIZE, and it trains alone");
  }
  // One without the other is of several ranks all the same, unless it is that of one.
  if (rank.empty() && !world.empty() && world != "1")
    return misuse("WORLD_SIZE is '" + world +
                  "', and RANK is not set: say which of the ranks this process is (RANK=0, ...), "
                  "or unset WORLD_SIZE to train alone");
  if (world.empty() && !rank.empty() && (rank != "0" || has_address()))
    return misuse("RANK is '" + rank +
                  "', and WORLD_SIZE is not set: say how many ranks there are (WORLD_SIZE=2, ...), "
                  "or unset RANK to train alone");
  if (rank.empty() || world.empty()) return std::optional<Rendezvous>();
  const auto rank_number = number_of<int>(rank), world_number = number_of<int>(world);
  if (!rank_number || !world_number)
    return misuse("RANK is '" + rank + "' and WORLD_SIZE '" + world + "'; they are whole numbers");
  return std::optional(Rendezvous{"", *rank_number, *world_number});
}

Result<int> or_variable(int given, const char* name, int otherwise) {
  if (given != kFromEnvironment) return given;
  const std::string text = variable(name);
  if (text.empty()) return otherwise;
  if (const auto number = number_of<int>(text)) return *number;
  return misuse(std::string(name) + " is '" + text + "'; it is a whole number");
}

// Rank and world size, as far as they are not given.
Result<Rendezvous> completed(Rendezvous wish) {
  if (wish.rank == kFromEnvironment && wish.world_size == kFromEnvironment) {
    LOCKSTEP_ASSIGN(const auto found, from_environment());
    // An address is for several ranks: with half a word of them it would train alone.
    const bool half = variable("RANK").empty() != variable("WORLD_SIZE").empty();
    if (half && wish.address.starts_with("tcp://") && variable("TORCHELASTIC_RUN_ID").empty())
      return misuse("the address to meet at is '" + wish.address +
                    "', and of RANK and WORLD_SIZE "
                    "only one is set: set both, or give --rank and --world_size");
    wish.rank = found ? found->rank : 0;
    wish.world_size = found ? found->world_size : 1;
    return wish;
  }
  LOCKSTEP_ASSIGN(wish.world_size, or_variable(wish.world_size, "WORLD_SIZE", 1));
  const int alone = wish.world_size == 1 ? 0 : kFromEnvironment;
  LOCKSTEP_ASSIGN(wish.rank, or_variable(wish.rank, "RANK", alone));
  return wish;
}

}  // namespace

std::string Meeting::address() const { return "tcp://" + endpoint_text(host, port); }

std::string Meeting::socket_name(uid_t user) const {
  return "lockstep/" + std::to_string(user) + "/" + host + "/" + std::to_string(port);
}

Result<std::optional<Meeting>> meeting_of(const std::optional<Rendezvous>& rendezvous) {
  std::optional<Rendezvous> wish;
  if (rendezvous) {
    LOCKSTEP_ASSIGN(wish, completed(*rendezvous));
  } else {
    LOCKSTEP_ASSIGN(wish, from_environment());
  }
  if (!wish) return std::optional<Meeting>();
  LOCKSTEP_TRY(check_ranks(*wish));
  if (wish->world_size == 1) return std::optional<Meeting>();
  Place place{variable("MASTER_ADDR"), variable("MASTER_PORT")};
  if (!wish->address.empty() && wish->address != "env://") {
    LOCKSTEP_ASSIGN(place, parse(wish->address));
  } else if (place.host.empty() || place.port.empty()) {
    return misuse("this is rank " + std::to_string(wish->rank) + " of " +
                  std::to_string(wish->world_size) +
                  ", and nothing says where the others are: give all ranks one address "
                  "(--init_method tcp://127.0.0.1:29500, or MASTER_ADDR and MASTER_PORT), or start "
                  "them all by the launcher ('lockstep run --nproc-per-node N PROGRAM ...')");
  }
  LOCKSTEP_ASSIGN(Meeting meeting, meeting_at(place, *wish));
  return std::optional(std::move(meeting));
}

}  // namespace lockstep::worker
