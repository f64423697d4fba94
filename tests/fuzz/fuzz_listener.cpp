// Any bytes from several strangers at the port that launchers and the workers' store share: each is
// let in, handed to the store, or turned away, by its first byte; and whoever comes after them is
// served in a store that is new and empty.
//
// The input is pieces: a byte that says who (its low two bits; bit 2: a newcomer in that place) and
// the piece's length minus one in its high five bits, then the piece.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "control/listener.h"
#include "store/server.h"

using namespace lockstep;
using namespace std::chrono_literals;

namespace {

void check(bool right) {
  if (!right) std::abort();
}

// An abstract socket: as many connections as one likes, and nothing is left of them.
struct Place {
  sockaddr_un address{};
  socklen_t size = 0;
  Place() {
    address.sun_family = AF_UNIX;
    const std::string name = "lockstep-fuzz-" + std::to_string(::getpid());
    name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&address); }
  UniqueFd listening() const {
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    check(::bind(socket.get(), data(), size) == 0 && ::listen(socket.get(), 64) == 0);
    return socket;
  }
  UniqueFd connected() const {
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    check(::connect(socket.get(), data(), size) == 0);
    return socket;
  }
};

class Port {
 public:
  Port() {
    control::Listener::Plan plan;
    plan.self = {control::kProtocol, 1, "1.2.3"};
    control::Listener::Events events;
    events.come = [](const std::shared_ptr<control::Connection>& connection,
                     std::string_view first) {
      check(!first.empty() && first.size() <= control::kMostFirstBytes);
      connection->close();
    };
    events.store = [this](UniqueFd client) { store_->adopt(std::move(client), ""); };
    listener_ =
        *control::Listener::open(loop_, *timers_, place_.listening(), plan, std::move(events));
  }
  UniqueFd connected() const { return place_.connected(); }
  void turn() { loop_.run_once(Deadline::in(0s)); }
  template <class Condition>
  void turn_until(Condition condition) {
    const Deadline end = Deadline::in(3s);
    while (!condition()) {
      check(!end.passed());
      loop_.run_once(Deadline::in(1ms));
    }
  }
  void begin_anew() {
    listener_->drop_store_clients();
    store_->begin_anew();
    check(store_->clients() == 0 && store_->held() == 0);
  }
  // A client of PyTorch's, as whoever came before it has left the port.
  void serve_one() {
    using store::Query;
    const UniqueFd client = connected();
    const std::string said = store::encode({Query::kValidate, {}, {}, store::kMagic}) +
                             store::encode({Query::kCountKeys, {}, {}, 0});
    check(::send(client.get(), said.data(), said.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(said.size()));
    std::uint64_t keys = 1;
    turn_until([&] { return ::recv(client.get(), &keys, sizeof keys, 0) == sizeof keys; });
    check(keys == 0);
  }
  bool empty() const { return listener_->waiting() == 0 && store_->clients() == 0; }

 private:
  const Place place_;
  Loop loop_ = *Loop::open();
  std::unique_ptr<control::Timers> timers_ = *control::Timers::open(loop_);
  std::unique_ptr<store::Server> store_ = *store::Server::without_listener(
      loop_, {.stored = 8 << 10, .buffered = 64 << 10, .clients = 3});
  std::unique_ptr<control::Listener> listener_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Port port;
  std::array<UniqueFd, 4> strangers;
  for (std::string_view rest(reinterpret_cast<const char*>(data), size); !rest.empty();) {
    const auto head = static_cast<std::uint8_t>(rest.front());
    rest.remove_prefix(1);
    UniqueFd& who = strangers[head % 4];
    if (!who || (head & 4) != 0) who = port.connected();
    const std::string_view piece = rest.substr(0, 1 + (head >> 3));
    rest.remove_prefix(piece.size());
    (void)!::send(who.get(), piece.data(), piece.size(), MSG_NOSIGNAL);
    port.turn();
  }
  if (size % 2 == 0) port.begin_anew();  // who is there is gone; else they go by themselves
  for (UniqueFd& stranger : strangers) stranger.reset();
  if (size % 2 == 0) port.serve_one();
  port.turn_until([] { return port.empty(); });
  port.begin_anew();
  return 0;
}
