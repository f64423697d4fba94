// A board of values for tests of the rules, and a run of three hosts with one worker each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "link/marks.h"
#include "link/rounds.h"

namespace lockstep::link {

inline constexpr Stay kA{0, 1}, kB{1, 1}, kC{2, 1};

inline coord::Table table_with(std::uint64_t txn, const std::vector<Stay>& hosts) {
  coord::Table table{.txn = Txn(txn), .generation = {}, .members = {}};
  for (const Stay host : hosts) {
    table.members.push_back({coord::uid_of(host, 1), Slot(0)});
    table.hosts.push_back({host, 1});
  }
  return table;
}

inline Item record(std::uint64_t txn, std::uint32_t v) {
  return {.txn = Txn(txn), .kind = Kind::kRecord, .index = v};
}
inline Item chunk(std::uint64_t txn, std::uint32_t c) {
  return {.txn = Txn(txn), .kind = Kind::kChunk, .index = c};
}

// V = 3, and one bucket of three chunks: what host h has of each has the number h.
class FakePlan : public Plan {
 public:
  const Contents& contents(std::uint64_t) const override { return contents_; }

 private:
  const Contents contents_{.chunks = {3}, .records = 3};
};

class FakeBoard : public Marks {
 public:
  std::uint64_t mark(const Item& item) const override {
    const auto found = marks_.find(place_of(item));
    return found == marks_.end() ? 0 : found->second;
  }
  const coord::Table* table(std::uint64_t txn) const override {
    const auto found = tables_.find(txn);
    return found == tables_.end() ? nullptr : &found->second;
  }
  std::uint64_t newest_table() const override {
    return tables_.empty() ? 0 : tables_.rbegin()->first;
  }
  std::span<const WorkerUid> deaths() const override { return deaths_; }
  std::uint64_t first() const override { return begin; }
  std::uint64_t first_not_whole() const override { return lowest; }
  std::vector<Item> newcomers() const override { return coming; }
  std::vector<Item> judged() const override { return judgements; }

  FakeBoard& put(const Item& item) {
    marks_[place_of(item)] = item.txn.value() + 1;
    return *this;
  }
  FakeBoard& put(const coord::Table& table) {
    tables_[table.txn.value()] = table;
    return put(table_of(table.txn.value()));
  }
  FakeBoard& append(WorkerUid death) {
    deaths_.push_back(death);
    return *this;
  }

  std::uint64_t begin = 0, lowest = 0;
  std::vector<Item> coming, judgements;

 private:
  std::map<Item, std::uint64_t> marks_;
  std::map<std::uint64_t, coord::Table> tables_;
  std::vector<WorkerUid> deaths_;
};

}  // namespace lockstep::link
