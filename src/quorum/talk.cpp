#include "quorum/talk.h"

#include <utility>

#include "base/delta.h"
#include "base/errors.h"

namespace lockstep::quorum {
namespace {

// What a frame carries whole, with the rest of a message (star::message::kMostTalkBytes): whoever
// has more could tell nobody who comes later. It is asked for them whole, and finds that out.
constexpr std::size_t kMostFactsBytes = (std::size_t{1} << 20) - 4096;

}  // namespace

// Whoever leads says them before all that follows from them. All others say their name where no
// difference says them: who hears it has mostly the same.
std::string Talk::say(std::size_t to, const Message& message) {
  Other& other = others_[to];
  Carried carried{.name = book_.add(message.facts), .unread = std::exchange(other.unread, false)};
  const bool asked = std::exchange(other.asked, false), whole = std::exchange(other.whole, false);
  if (asked || !(other.has == carried.name || other.said == carried.name)) {
    if (other.has && !whole) carried.bytes = book_.difference(*other.has, carried.name);
    if (!carried.bytes.empty())
      carried.as = Carried::kDifference, carried.base = *other.has;
    else if (asked || message.role == Role::kLeads)
      carried.as = Carried::kWhole, carried.bytes = book_.whole(carried.name);
  }
  other.said = carried.name;
  other.as = carried.as;
  return encode(message, carried);
}

Result<Talk::Heard> Talk::hear(std::size_t from, std::string_view bytes) {
  LOCKSTEP_ASSIGN(Said said, decode(bytes));
  LOCKSTEP_ASSIGN(const std::optional<SharedFacts> facts, read(said.facts));
  Other& other = others_[from];
  other.has = said.facts.name;
  if (said.facts.unread) other.asked = true, other.whole = other.as == Carried::kDifference;
  Heard heard{.message = std::nullopt, .answer = said.facts.unread || !facts};
  if (!facts) {
    other.unread = true;
    return heard;
  }
  book_.add(said.facts.name, *facts);
  said.message.facts = *facts;
  heard.message = std::move(said.message);
  return heard;
}

// None: it does not have what they are a difference to, or they have not become those.
Result<std::optional<SharedFacts>> Talk::read(const Carried& carried) const {
  const SharedFacts* known = book_.find(carried.name);
  if (known != nullptr) return std::optional(*known);
  if (carried.as == Carried::kName) return std::optional<SharedFacts>();
  std::string bytes(carried.bytes);
  if (carried.as == Carried::kDifference) {
    const SharedFacts* base = book_.find(carried.base);
    if (base == nullptr) return std::optional<SharedFacts>();
    auto whole = apply_delta(encode(**base), carried.bytes, kMostFactsBytes);
    if (!whole.ok()) return std::optional<SharedFacts>();
    bytes = *std::move(whole);
  }
  const bool is_it = name_of(carried.name.stamp, bytes) == carried.name;
  if (!is_it && carried.as == Carried::kDifference) return std::optional<SharedFacts>();
  LOCKSTEP_ASSIGN(Facts facts, decode_facts(bytes));
  if (!is_it || facts.stamp != carried.name.stamp)
    return bad_data("what an agent says of the run has another name than its own");
  return std::optional(SharedFacts(std::move(facts)));
}

}  // namespace lockstep::quorum
