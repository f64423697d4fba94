// The boards of all hosts of a control-plane simulation, as one: all hosts are in one transaction,
// which is whole as soon as nothing of it is of a dead host. Of what the dead should have made,
// half of the items are on the boards of half of the hosts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "link/marks.h"
#include "link/owners.h"

namespace lockstep::simulation {

using coord::Stay;

// As of ResNet-18 (44.7 MB): chunks are of 128 KB.
inline link::Contents contents_of(std::uint32_t virtual_workers) {
  return {.chunks = std::vector<std::uint32_t>(8, 43),
          .records = virtual_workers,
          .buffers = 1,
          .rows = 0,
          .cells = 0};
}

struct SharedBoards {
  explicit SharedBoards(std::uint32_t virtual_workers) : plan(contents_of(virtual_workers)) {}

  std::uint64_t txn = 0;
  std::map<std::uint64_t, coord::Table> tables;  // up to that of txn + 1
  std::set<Stay> dead;                           // in this transaction, or before it
  std::vector<WorkerUid> appended;               // as txn began, by all
  std::unique_ptr<link::Owners> owners;          // as of then
  link::SamePlan plan;

  void begin(std::uint64_t next, std::vector<WorkerUid> deaths) {
    txn = next;
    appended = std::move(deaths);
    owners = std::make_unique<link::Owners>(tables.at(txn), plan.contents(txn), appended);
  }
  bool is_of_the_dead(const link::Item& item) const {
    const auto owner = owners->owner(item);
    return owner && dead.contains(*owner);
  }
  bool lists(Stay stay) const { return link::takes_part(tables.at(txn), stay); }
};

// Of one host.
class SimBoard final : public link::Marks {
 public:
  explicit SimBoard(const SharedBoards& all) : all_(all) {}

  std::uint64_t mark(const link::Item& item) const override {
    const std::uint64_t txn = item.txn.value();
    if (item.kind == link::Kind::kTable) return all_.tables.contains(txn) ? txn + 1 : 0;
    if (txn < all_.txn) return txn + 1;
    if (txn > all_.txn || all_.owners == nullptr) return 0;
    const bool is_there = !all_.is_of_the_dead(item) || filled_.contains(item) ||
                          (item.index % 2 == 0 && self_ % 2 == 0);
    return is_there ? txn + 1 : 0;
  }
  const coord::Table* table(std::uint64_t txn) const override {
    const auto found = all_.tables.find(txn);
    return found == all_.tables.end() ? nullptr : &found->second;
  }
  std::uint64_t newest_table() const override {
    return all_.tables.empty() ? 0 : all_.tables.rbegin()->first;
  }
  std::span<const WorkerUid> deaths() const override { return deaths_; }
  std::uint64_t first_not_whole() const override { return all_.txn; }

  void fill(const std::vector<link::Item>& items) { filled_.insert(items.begin(), items.end()); }
  void append(WorkerUid death) { deaths_.push_back(death); }
  bool is_at(Stay stay) const { return coord::is_dead(deaths_, coord::death_of(stay)); }
  void set_self(std::size_t self) { self_ = self; }
  coord::Table proposal;

 private:
  const SharedBoards& all_;
  std::size_t self_ = 0;
  std::set<link::Item> filled_;
  std::vector<WorkerUid> deaths_;
};

}  // namespace lockstep::simulation
