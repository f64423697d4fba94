#include "quorum/facts_book.h"

#include <algorithm>
#include <utility>

#include "base/delta.h"

namespace lockstep::quorum {

FactsName FactsBook::add(const SharedFacts& facts) {
  const auto same = [&](const Entry& one) { return one.facts.is_same_as(facts); };
  const auto found = std::ranges::find_if(entries_, same);
  const FactsName name =
      found != entries_.end() ? found->name : name_of(facts->stamp, encode(*facts));
  add(name, facts);
  return name;
}

void FactsBook::add(const FactsName& name, SharedFacts facts) {
  if (!entries_.empty() && entries_.back().name == name && entries_.back().facts.is_same_as(facts))
    return;
  std::erase_if(entries_, [&](const Entry& one) { return one.name == name; });
  entries_.push_back({name, std::move(facts)});
  if (entries_.size() > kMost) entries_.pop_front();
}

const SharedFacts* FactsBook::find(const FactsName& name) const {
  const auto found = std::ranges::find(entries_, name, &Entry::name);
  return found == entries_.end() ? nullptr : &found->facts;
}

void FactsBook::ask_for(const FactsName& name) {
  if (asked_ == name && !whole_.empty()) return;
  asked_ = name;
  whole_ = encode(**find(name));
  differences_.clear();
}

std::string_view FactsBook::whole(const FactsName& name) {
  ask_for(name);
  return whole_;
}

std::string_view FactsBook::difference(const FactsName& base, const FactsName& name) {
  const SharedFacts* from = find(base);
  if (from == nullptr) return "";
  ask_for(name);
  const auto [found, is_new] = differences_.try_emplace(base);
  if (!is_new) return found->second;
  std::string difference = delta_of(encode(**from), whole_);
  if (difference.size() < whole_.size()) found->second = std::move(difference);
  return found->second;
}

}  // namespace lockstep::quorum
