#include "launcher/store/store_probe.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <random>
#include <string_view>
#include <utility>

#include "base/endpoint.h"
#include "control/address.h"
#include "control/sockets.h"
#include "store/protocol.h"

namespace lockstep::launcher {
namespace {

using control::Address;
using control::Outcome;
using store::Query;

constexpr std::size_t kAboveAnyPacket = 64 << 10;  // IPv4 and IPv6 have 16 bits for its length
constexpr const char* kKey = "lockstep/probe";
// Short, as all texts here: they travel between launchers, where large packets may be lost.
constexpr const char* kOpenThePort =
    "; let TCP to that port through, or name an open one (--store-port)";

}  // namespace

StoreProbe::StoreProbe(Loop& loop, Plan plan, Done done)
    : loop_(loop), plan_(std::move(plan)), done_(std::move(done)) {}

StoreProbe::~StoreProbe() {
  if (socket_) loop_.remove(socket_.get());
}

std::unique_ptr<StoreProbe> StoreProbe::start(Loop& loop, control::Timers& timers, Plan plan,
                                              Done done) {
  std::unique_ptr<StoreProbe> probe(new StoreProbe(loop, std::move(plan), std::move(done)));
  probe->deadline_ = timers.in(probe->plan_.patience, [at = probe.get()] { at->too_late(); });
  // From the loop, as all that `done` is called for.
  probe->beginning_ = timers.in({}, [at = probe.get()] { at->begin(); });
  return probe;
}

void StoreProbe::begin() {
  const auto address = Address::numeric(plan_.address, plan_.port);
  if (!address) return finish(failure("this machine cannot use that address"));
  socket_.reset(::socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_) return finish(failure(std::strerror(errno)));
  if (::connect(socket_.get(), address->data(), address->size()) != 0 && errno != EINPROGRESS)
    return finish(not_connected(errno));
  watch(Loop::kWritable, [this] { connected(); });
}

void StoreProbe::connected() {
  if (const int code = control::error_of_connect(socket_.get()); code != 0)
    return finish(not_connected(code));
  const std::uint32_t nonce = std::random_device()();
  std::string echo;
  store::put_32(echo, nonce);
  ask(Phase::kSmall,
      store::encode({Query::kValidate, {}, {}, store::kMagic}) +
          store::encode({Query::kPing, {}, {}, nonce}),
      echo);
}

void StoreProbe::ask(Phase phase, std::string question, std::string answer) {
  phase_ = phase;
  question_ = std::move(question);
  answer_ = std::move(answer);
  sent_ = heard_ = 0;
  send();
}

void StoreProbe::send() {
  const ssize_t size = ::send(socket_.get(), question_.data() + sent_, question_.size() - sent_,
                              MSG_DONTWAIT | MSG_NOSIGNAL);
  if (size < 0 && errno != EAGAIN && errno != EINTR)
    return finish(no_store(std::string("it broke the connection off: ") + std::strerror(errno)));
  if (size > 0) sent_ += static_cast<std::size_t>(size);
  if (sent_ < question_.size()) return watch(Loop::kWritable, [this] { send(); });
  watch(Loop::kReadable, [this] { receive(); });
}

void StoreProbe::receive() {
  std::array<char, 8 << 10> bytes{};
  const ssize_t size = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) return finish(no_store("it closed the connection"));
  const std::string_view heard(bytes.data(), static_cast<std::size_t>(size));
  if (std::string_view(answer_).substr(heard_, heard.size()) != heard)
    return finish(no_store("it gives another answer than a store"));
  heard_ += heard.size();
  if (heard_ == answer_.size()) answered();
}

void StoreProbe::answered() {
  if (phase_ == Phase::kLarge) return finish({});
  const std::string expected(kAboveAnyPacket, 'x');
  std::string answer;
  store::put_text(answer, expected);
  ask(Phase::kLarge,
      store::encode(
          {Query::kCompareSet, {plan_.sign.empty() ? kKey : plan_.sign}, {expected, ""}, 0}),
      answer);
}

void StoreProbe::too_late() { finish(no_answer()); }

Status StoreProbe::not_connected(int code) const {
  switch (control::outcome_of_connect(code)) {
    case Outcome::kRefused:
      return failure("refused: nobody listens there, or a firewall rejects it", kOpenThePort);
    case Outcome::kDropped:
      return failure("no answer: a firewall drops what is sent there", kOpenThePort);
    default:
      return failure(
          std::string(std::strerror(code)) + ": there is no route, or a firewall rejects it",
          kOpenThePort);
  }
}

Status StoreProbe::no_answer() const {
  const std::string within = " within " + std::to_string(plan_.patience.count()) + " ms";
  if (phase_ == Phase::kConnects)
    return failure("no answer" + within + ": a firewall drops what is sent there", kOpenThePort);
  if (phase_ == Phase::kSmall)
    return failure("connected, but no answer" + within +
                   ": it is no store, its launcher is stopped, or a firewall lets no data through");
  const std::string bytes = " (" + std::to_string(question_.size()) + " bytes not ";
  if (control::is_unacknowledged(socket_.get()))
    return failure("small packets pass, large ones vanish" + bytes + "acknowledged" + within + ")",
                   control::kMendTheMtu);
  return failure("small packets pass, large ones vanish on the way back" + bytes + "answered" +
                     within + "), or its launcher is stopped",
                 control::kMendTheMtu);
}

Status StoreProbe::no_store(const std::string& what) const {
  return failure("what listens there is no store: " + what +
                 "; another program may have that port");
}

Status StoreProbe::failure(const std::string& what, const char* remedy) const {
  return Error{ErrorKind::kUnavailable,
               "the workers' store of node 0 at " + endpoint_text(plan_.address, plan_.port) +
                   " is not reached, though the launchers' own connections work: " + what + remedy};
}

void StoreProbe::watch(Loop::Readiness readiness, Loop::Handler handler) {
  loop_.remove(socket_.get());
  const Status watched = loop_.add(socket_.get(), std::move(handler), readiness);
  if (!watched.ok()) finish(watched);
}

void StoreProbe::finish(const Status& status) {
  if (socket_) loop_.remove(socket_.get());
  socket_.reset();
  deadline_.cancel();
  const Done done = std::exchange(done_, nullptr);
  if (done) done(status);
}

}  // namespace lockstep::launcher
