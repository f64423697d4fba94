#include "links/tcp/visitors.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/text.h"
#include "control/address.h"
#include "control/sockets.h"

namespace lockstep::links {
namespace {

std::size_t a_quarter_of_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;
  return std::max<std::size_t>(1, limit.rlim_cur / 4);
}

}  // namespace

Visitors::Visitors(Loop& loop, control::Timers& timers, UniqueFd listener, const Limits& limits,
                   Events events)
    : loop_(loop),
      timers_(timers),
      listener_(std::move(listener)),
      limits_(limits),
      events_(std::move(events)),
      door_(listener_.get(), loop, [this](UniqueFd socket) { greet(std::move(socket)); }) {
  limits_.most_waiting = std::min(limits_.most_waiting, a_quarter_of_descriptors());
}

Result<std::unique_ptr<Visitors>> Visitors::open(Loop& loop, control::Timers& timers,
                                                 UniqueFd listener, const Limits& limits,
                                                 Events events) {
  std::unique_ptr<Visitors> made(
      new Visitors(loop, timers, std::move(listener), limits, std::move(events)));
  LOCKSTEP_TRY(made->door_.open());
  return made;
}

Visitors::~Visitors() {
  for (const auto& [id, visitor] : visitors_) loop_.remove(visitor.socket.get());
}

void Visitors::greet(UniqueFd socket) {
  if (visitors_.size() >= limits_.most_waiting)
    if (const auto goes = crowd_.first_to_go())
      turn_away(*goes, "it made room for others: " + std::to_string(visitors_.size()) +
                           " connections have not said who they are");
  const auto from = control::Address::remote_of(socket.get());
  const std::uint64_t id = ++visits_;
  if (!from || !loop_.add(socket.get(), [this, id] { hear(id); }).ok()) return;
  auto limit = timers_.in(limits_.patience, [this, id] {
    turn_away(id,
              std::to_string(limits_.patience.count()) + " ms went by before " + what_lacks(id));
  });
  crowd_.add(id, from->host());
  visitors_.emplace(id, Visitor{std::move(socket), from->host(), "", std::move(limit)});
}

UniqueFd Visitors::take(std::uint64_t id) {
  const auto found = visitors_.find(id);
  loop_.remove(found->second.socket.get());
  UniqueFd socket = std::move(found->second.socket);
  visitors_.erase(found);
  crowd_.remove(id);
  return socket;
}

void Visitors::turn_away(std::uint64_t id, const std::string& why) {
  const std::string from = visitors_.at(id).from;
  take(id);
  events_.turned_away(from, why);
}

void Visitors::hear(std::uint64_t id) {
  Visitor& visitor = visitors_.at(id);
  std::array<char, std::max({kHelloBytes, kProofBytes, kLoadBytes})> bytes;
  const ssize_t count = ::recv(visitor.socket.get(), bytes.data(), visitor.left, 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return turn_away(id, "it closed the connection before " + what_lacks(id));
  visitor.left -= static_cast<std::size_t>(count);
  if (visitor.next <= Next::kProof)
    visitor.bytes.append(bytes.data(), static_cast<std::size_t>(count));
  if (visitor.next == Next::kHello && !may_be_hello(visitor.bytes))
    return turn_away(id, "it is no link of Lockstep's, or of another version: it begins with '" +
                             for_terminal(printable(visitor.bytes.substr(0, 16))) + "'");
  if (visitor.left == 0) go_on(id);
}

std::string Visitors::what_lacks(std::uint64_t id) const {
  const Visitor& visitor = visitors_.at(id);
  if (visitor.next <= Next::kProof) return "it had said who it is";
  return std::string("large packets had come ") +
         (visitor.next == Next::kLoad ? "from there" : "there") +
         ", small ones have: they may be lost on the way" + control::kMendTheMtu;
}

void Visitors::go_on(std::uint64_t id) {
  Visitor& visitor = visitors_.at(id);
  switch (visitor.next) {
    case Next::kHello:
      return answer(id);
    case Next::kProof:
      if (!is_same(visitor.bytes, visitor.proof)) return turn_away(id, kOtherCookie);
      visitor.next = Next::kLoad;
      visitor.left = kLoadBytes;
      return;
    case Next::kLoad:
      return answer_load(id);
    case Next::kLastByte:
      const Hello hello = *visitor.hello;
      return events_.let_in(take(id), hello);
  }
}

void Visitors::answer(std::uint64_t id) {
  Visitor& visitor = visitors_.at(id);
  const std::optional<Hello> hello = decode_hello(visitor.bytes);
  auto answer = hello ? events_.said(*hello, visitor.from) : std::nullopt;
  if (!answer || !control::send_whole(visitor.socket.get(), answer->bytes)) {
    take(id);  // or it is gone again
    return;
  }
  visitor.hello = hello;
  visitor.proof = std::move(answer->proof);
  visitor.bytes.clear();
  visitor.next = Next::kProof;
  visitor.left = kProofBytes;
}

void Visitors::answer_load(std::uint64_t id) {
  Visitor& visitor = visitors_.at(id);
  if (!control::send_whole(visitor.socket.get(), load())) {
    take(id);
    return;
  }
  visitor.next = Next::kLastByte;
  visitor.left = 1;
}

}  // namespace lockstep::links
