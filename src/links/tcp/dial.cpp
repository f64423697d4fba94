#include "links/tcp/dial.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "control/sockets.h"

namespace lockstep::links {

using namespace std::chrono_literals;

namespace {

// The other end's patience (Limits::patience) is longer.
constexpr auto kLongestForLoad = 2s;

}  // namespace

std::unique_ptr<Dial> Dial::start(Loop& loop, control::Timers& timers,
                                  const std::optional<control::Address>& from, const Party& self,
                                  const Other& other, Packets packets,
                                  std::chrono::milliseconds patience, Dialled done) {
  std::unique_ptr<Dial> made(
      new Dial(loop, timers, from, self, other, packets, patience, std::move(done)));
  Dial* dial = made.get();
  dial->limit_ = timers.in(patience, [dial, patience] {
    dial->finish(Cause::kTooLate, "no answer within " + std::to_string(patience.count()) + " ms");
  });
  dial->again_ = timers.in(0ms, [dial] { dial->connect(); });
  return made;
}

Dial::Dial(Loop& loop, control::Timers& timers, const std::optional<control::Address>& from,
           const Party& self, const Other& other, Packets packets,
           std::chrono::milliseconds patience, Dialled done)
    : loop_(loop),
      timers_(timers),
      from_(from),
      self_(self),
      other_(other),
      packets_(packets),
      done_(std::move(done)),
      pause_(std::max<std::chrono::milliseconds>(250ms, patience / 16)),
      patience_for_load_(std::min<std::chrono::milliseconds>(patience / 2, kLongestForLoad)) {}

Dial::~Dial() {
  drop_tries();
  if (socket_) loop_.remove(socket_.get());
}

void Dial::drop_tries() {
  again_.cancel();
  for (const UniqueFd& socket : tries_) loop_.remove(socket.get());
  tries_.clear();
}

void Dial::connect() {
  again_ = timers_.in(pause_, [this] { connect(); });
  if (const int error = begin(); error != 0) fail_of(error);
}

// An errno, or 0.
int Dial::begin() {
  if (!other_.address) return EDESTADDRREQ;
  UniqueFd made(::socket(other_.address->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made) return errno;
  const int socket = made.get();
  if (packets_ == Packets::kSmall) control::take_small_segments(socket);
  if (const int error = control::begin_connect(socket, *other_.address, from_); error != 0)
    return error;
  tries_.push_back(std::move(made));
  const Status added = loop_.add(
      socket, [this, socket] { on_connected(socket); }, Loop::kWritable);
  return added.ok() ? 0 : EMFILE;
}

void Dial::on_connected(int socket) {
  if (const int error = control::error_of_connect(socket); error != 0) return fail_of(error);
  said_ = encode({self_, other_.party, draw_nonce()});
  const ssize_t count = ::send(socket, said_.data(), said_.size(), MSG_NOSIGNAL);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;  // not connected yet
  if (count != static_cast<ssize_t>(said_.size())) return fail_of(count < 0 ? errno : EPIPE);
  const auto found = std::ranges::find(tries_, socket, &UniqueFd::get);
  loop_.remove(socket);
  socket_ = std::move(*found);
  tries_.erase(found);
  drop_tries();
  if (!loop_.add(socket_.get(), [this] { hear(); }).ok()) fail_of(EMFILE);
}

void Dial::hear() {
  constexpr std::size_t kAll = kHelloBytes + kProofBytes;
  std::array<char, kAll> bytes;
  const ssize_t count = ::recv(socket_.get(), bytes.data(), kAll - heard_.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  // It does not say why: it may be that its agent has not told it of us yet.
  if (count == 0 || (count < 0 && errno == ECONNRESET))
    return finish(Cause::kTurnedAway, "it closed the connection before it had said who it is");
  if (count < 0) return fail_of(errno);
  heard_.append(bytes.data(), static_cast<std::size_t>(count));
  if (heard_.size() < kAll && may_be_hello(heard_)) return;
  if (const std::string why = why_not_heard(); !why.empty()) return finish(Cause::kStranger, why);
  send_load();
}

void Dial::send_load() {
  const std::string proof = proof_of(other_.cookie, End::kDials, said_, answered());
  if (!control::send_whole(socket_.get(), proof + std::string(load()))) return fail_of(EPIPE);
  loop_.remove(socket_.get());
  if (!loop_.add(socket_.get(), [this] { hear_load(); }).ok()) return fail_of(EMFILE);
  limit_ = timers_.in(patience_for_load_, [this] { finish(Cause::kLargeLost, what_is_lost()); });
}

void Dial::hear_load() {
  std::array<char, kLoadBytes> bytes;
  const ssize_t count = ::recv(socket_.get(), bytes.data(), load_left_, 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count == 0 || (count < 0 && errno == ECONNRESET))
    return finish(Cause::kTurnedAway, "it closed the connection before it had tried it");
  if (count < 0) return fail_of(errno);
  load_left_ -= static_cast<std::size_t>(count);
  if (load_left_ > 0) return;
  if (!control::send_whole(socket_.get(), std::string_view("\0", 1))) return fail_of(EPIPE);
  loop_.remove(socket_.get());
  limit_.cancel();
  const Dialled done = std::exchange(done_, nullptr);
  done(std::move(socket_), {});
}

std::string_view Dial::answered() const { return std::string_view(heard_).substr(0, kHelloBytes); }

std::string Dial::why_not_heard() const {
  const auto hello = decode_hello(answered());
  if (!hello) return "it is no link of Lockstep's, or of another version";
  if (std::string why = why_not(*hello, self_, other_); !why.empty()) return why;
  const std::string wanted = proof_of(other_.cookie, End::kListens, said_, answered());
  return is_same(std::string_view(heard_).substr(kHelloBytes), wanted) ? "" : kOtherCookie;
}

std::string Dial::what_is_lost() const {
  const bool is_small = packets_ == Packets::kSmall;
  const bool is_way_there = control::is_unacknowledged(socket_.get());
  std::string text =
      is_small ? "hellos pass, packets of " : "small packets pass, large ones vanish";
  if (is_small) text += std::to_string(control::kSmallSegment) + " bytes vanish";
  text += std::string(is_way_there ? "" : " on the way back") + " (" + std::to_string(kLoadBytes) +
          " bytes not " + (is_way_there ? "acknowledged" : "answered") + " within " +
          std::to_string(patience_for_load_.count()) + " ms)";
  if (!is_way_there) text += ", or its link is stopped";
  if (!is_small) text += "; it is tried with small ones, which are slower";
  return text + control::kMendTheMtu;
}

void Dial::finish(Cause cause, const std::string& what) {
  drop_tries();
  if (socket_) loop_.remove(socket_.get());
  socket_.reset();
  limit_.cancel();
  const std::string name = other_.address ? other_.address->text() : "no address";
  const Dialled done = std::exchange(done_, nullptr);
  done({}, {cause, "node " + std::to_string(other_.party.stay.host) + " (" + name + "): " + what});
}

void Dial::fail_of(int error) {
  finish(error == ECONNREFUSED ? Cause::kRefused : Cause::kUnreachable, std::strerror(error));
}

}  // namespace lockstep::links
