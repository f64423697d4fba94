// Any bytes as what one agent that has the key says: as a message; to the leader of a run of three,
// whose other two nodes are sound; to a node as its leader. The sound nodes never have two attempts
// at once, and what has passed star::implausible() overflows nothing.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>

#include "nodes/leader.h"
#include "nodes/node.h"
#include "star/messages.h"
#include "star/plausible.h"

using namespace lockstep;
using namespace lockstep::nodes;

namespace {

constexpr std::uint64_t kStep = 100'000'000;
constexpr Link kBroken = 2;

Row row(std::uint64_t number) {
  const std::string name = std::to_string(number);
  return {{}, "10.0.0." + name, "machine" + name, number, 2, "default", name};
}

Rules rules() {
  Rules all;
  all.nodes = 3;
  all.max_restarts = 1000;
  all.limit = 2'000'000'000;
  return all;
}

// Two u16 lengths never agree with what follows: a frame is what is left, at most.
std::string_view take_frame(std::string_view& bytes) {
  if (bytes.size() < 2) return std::exchange(bytes, {});
  const std::size_t size =
      static_cast<unsigned char>(bytes[0]) + 256u * static_cast<unsigned char>(bytes[1]);
  bytes.remove_prefix(2);
  const std::string_view frame = bytes.substr(0, size);
  bytes.remove_prefix(frame.size());
  return frame;
}

void as_message(std::string_view frame) {
  const auto message = star::decode(frame);
  if (!message.ok()) return;
  const auto text = star::encode(*message);
  if (!text.ok() || *text != frame) std::abort();  // there is one way to say it
}

class Run {
 public:
  void hear(std::string_view frame) {
    now_ += kStep;
    if (const auto message = star::decode(frame); message.ok())
      if (const auto* word = std::get_if<NodeWord>(&*message)) broken(*word);
    for (int i = 0; i < 2; ++i) {
      sound(kOwnLink, own_);
      sound(1, other_);
    }
    leader_.tick(now_);
    (void)leader_.take_due();
    (void)leader_.take_dropped();
    (void)leader_.missing(now_);
    if (own_runs_ != 0 && other_runs_ != 0 && own_runs_ != other_runs_) std::abort();
  }

 private:
  // As star::Hub does. What it cannot know is filled in, so that some words are taken.
  void broken(NodeWord word) {
    const LeaderWord heard = leader_.word_for(kBroken, now_);
    if (word.leader == 0) word.leader = heard.incarnation;
    if (word.echo == 0) word.echo = heard.sent;
    if (word.run == 0) word.run = heard.run;
    if (!star::implausible(word, 100, now_).empty()) return;
    star::shorten(word);
    leader_.heard(kBroken, word, now_);
  }
  void sound(Link link, Node& node) {
    Attempt& runs = link == kOwnLink ? own_runs_ : other_runs_;
    node.tick(now_);
    if (const Attempt attempt = node.wish().serve; attempt != 0)
      node.serves({attempt, "10.0.0.1", 29'500, true});
    if (const Attempt attempt = node.wish().run; attempt != 0) {
      node.workers_started();
      runs = attempt;
    }
    if (node.wish().signal != 0) {
      runs = 0;
      node.workers_gone(false);
    }
    leader_.heard(link, node.word(now_), now_);
    const LeaderWord word = leader_.word_for(link, now_);
    if (!star::encode(word).ok()) std::abort();  // nothing that one says makes it too long
    node.heard(word, now_);
  }

  std::uint64_t now_ = 1'000'000'000'000;
  Leader leader_{rules(), row(100), 7, {}, now_};
  Node own_{rules(), row(100), now_}, other_{rules(), row(101), now_};
  Attempt own_runs_ = 0, other_runs_ = 0;
};

void as_leader(Node& node, std::string_view frame, std::uint64_t now) {
  const auto message = star::decode(frame);
  if (!message.ok()) return;
  const auto* word = std::get_if<LeaderWord>(&*message);
  if (word == nullptr || !star::implausible(*word, now).empty()) return;
  node.heard(*word, now);
  if (node.wish().run != 0) node.workers_started();
  // Nothing that a leader says lets workers live beyond L, as its newest word has it: one that was
  // overtaken may have another.
  if (node.may_live_until() > now + node.limit()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Run run;
  Node node(rules(), row(1), 1'000'000'000'000);
  for (std::uint64_t now = 1'000'000'000'000; !bytes.empty(); now += kStep) {
    const std::string_view frame = take_frame(bytes);
    as_message(frame);
    run.hear(frame);
    as_leader(node, frame, now);
    node.tick(now);
    if (node.wish().signal != 0) node.workers_gone(false);
  }
  return 0;
}
