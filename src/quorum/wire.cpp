#include "quorum/wire.h"

#include <algorithm>
#include <span>

#include "base/errors.h"
#include "base/hash.h"
#include "base/wire.h"

namespace lockstep::quorum {
namespace {

template <Is<Stamp> M>
void fields(auto& io, M& m) {
  io(m.term), io(m.seq);
}
template <Is<FactsName> M>
void fields(auto& io, M& m) {
  fields(io, m.stamp), io(m.digest);
}
template <Is<Member> M>
void fields(auto& io, M& m) {
  io(m.host), io(m.incarnation);
}
template <Is<Set> M>
void fields(auto& io, M& m) {
  io(m.id);
  io.list(m.members, [](auto& of, auto& one) { fields(of, one); });
}
template <Is<Verdict> M>
void fields(auto& io, M& m) {
  io(m.code), io(m.text), io(m.in_force), io(m.known);
}
template <Is<Facts> M>
void fields(auto& io, M& m) {
  const auto verdict = [](auto& of, auto& one) { fields(of, one); };
  fields(io, m.stamp), io(m.history), fields(io, m.set), fields(io, m.change), io(m.changes);
  fields(io, m.attempt), io.maybe(m.stop, verdict), io.maybe(m.final, verdict), io(m.run);
}
template <Is<Message> M>
void fields(auto& io, M& m) {
  const auto member = [](auto& of, auto& one) { fields(of, one); };
  fields(io, m.from), io(m.sent), io(m.echo), io(m.term), io.one_of(m.role, Role::kLeads);
  io.maybe(m.vote, member), io.maybe(m.obeys, member);
  fields(io, m.acknowledged), fields(io, m.in_force), io(m.quorum_age);
  io(m.hears), io(m.would), io(m.you_were_in), io(m.out), io(m.attempt_is_over);
}

template <Is<Carried> M>
void fields(auto& io, M& m) {
  fields(io, m.name), io.one_of(m.as, Carried::kDifference), io(m.unread);
  if (m.as == Carried::kDifference) fields(io, m.base);
  if (m.as != Carried::kName) io(m.bytes);
}

std::string fault_of(const Set& set) {
  if (set.members.size() > kMostMembers)
    return "a set has " + std::to_string(set.members.size()) + " members, the most are " +
           std::to_string(kMostMembers);
  if (static_cast<bool>(set) == set.members.empty()) return "a set has an id or members alone";
  std::vector<Member> sorted = set.members;
  std::ranges::sort(sorted);
  const bool once = std::ranges::adjacent_find(sorted) == sorted.end();
  return once ? "" : "a set has a member twice";
}

}  // namespace

std::string encode(const Facts& facts) {
  WireWriter io;
  fields(io, facts);
  return io.take();
}

FactsName name_of(const Stamp& stamp, std::string_view bytes) {
  return {stamp, xxh3(std::as_bytes(std::span(bytes)))};
}

Result<Facts> decode_facts(std::string_view bytes) {
  WireReader io(bytes);
  Facts facts;
  fields(io, facts);
  io.expect_end();
  std::string fault = io.fault();
  for (const Set* set : {&facts.set, &facts.change})
    if (fault.empty()) fault = fault_of(*set);
  if (!fault.empty()) return bad_data("what an agent says of the run: " + fault);
  return facts;
}

std::string encode(const Message& message, const Carried& facts) {
  WireWriter io;
  fields(io, message), fields(io, facts);
  return io.take();
}

Result<Said> decode(std::string_view bytes) {
  WireReader io(bytes);
  Said said;
  fields(io, said.message), fields(io, said.facts);
  io.expect_end();
  if (!io.fault().empty()) return bad_data("what an agent says of who leads: " + io.fault());
  return said;
}

}  // namespace lockstep::quorum
