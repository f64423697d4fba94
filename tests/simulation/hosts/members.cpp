// What workers do: compute, publish, sum, apply.
#include <algorithm>

#include "hosts.h"

namespace lockstep::simulation {

bool Hosts::work(Worker& worker) {
  const Host& host = hosts_[worker.host];
  if (!worker.alive || worker.paused || host.paused || worker.txn >= trouble_.shape.transactions)
    return false;
  if (!worker.job.empty()) return go_on(worker);
  if (worker.comes) return come(worker);
  if (worker.idle_at == host.board->version()) return false;
  const coord::Table* table = host.board->table(worker.txn);
  if (table != nullptr && table->has(worker.uid)) {
    if (host.board->whole(worker.txn)) {
      apply(worker);
      return true;
    }
    if (choose_job(worker)) return go_on(worker);
  }
  worker.idle_at = host.board->version();
  return false;
}

// A newcomer copies the state of the start of t, from another host or from a neighbour, and applies
// t if the table of t + 1 lists it.
bool Hosts::come(Worker& worker) {
  SimBoard& board = *hosts_[worker.host].board;
  const bool alone = outside(worker.host);
  const auto tell = [&](std::optional<std::uint64_t> txn) {
    worker.has_image = txn.has_value();
    if (!alone) return;
    for (std::size_t other = 0; other < hosts_.size(); ++other) {
      if (other == worker.host) continue;
      way(other, worker.host).pair->comes(txn);
      ++way(other, worker.host).changed;
    }
  };
  if (!worker.has_image) {
    const Worker& donor = workers_[random_.between(0, workers_.size() - 1)];
    const bool may_give = alone ? counts(donor.host) : donor.host == worker.host;
    if (!hosts_[worker.host].knows_dead || !in_set(worker.host) || worker.images == 3 ||
        !donor.alive || donor.comes || !may_give || donor.txn >= trouble_.shape.transactions ||
        (worker.images > 0 && donor.txn <= worker.txn))
      return false;
    ++worker.images;
    worker.txn = donor.txn;
    worker.state = donor.state;
    note([&] { return "a newcomer has the state of the start of t" + std::to_string(donor.txn); });
    if (alone) board.begin_at(donor.txn);
    tell(donor.txn);
    board.set_ready(link::ready_of(worker.txn, hosts_[worker.host].stay, worker.place),
                    worker.uid.value());
    return true;
  }
  const coord::Table* next = board.table(worker.txn + 1);
  if (next == nullptr && board.newest_table() <= worker.txn + coord::kTables) return false;
  if (next == nullptr || !next->has(worker.uid)) {
    note([&] { return std::string("the newcomer is not listed"); });
    if (alone) board.begin_at(link::kNever);
    tell({});
    return true;
  }
  if (!board.whole(worker.txn)) return false;
  apply(worker);
  worker.comes = false;
  tell({});
  see(!alone                               ? "replacements that came in"
      : hosts_[worker.host].stay.count > 1 ? "returned hosts that came in"
                                           : "newcomers that came in");
  if (!alone) return true;
  const auto check = [&](const Item& item) { check_value(worker.host, item); };
  plan_.contents(worker.txn - 1).for_each(worker.txn - 1, check);
  check(link::table_of(worker.txn));
  return true;
}

// Each write has a beginning and an end.
bool Hosts::go_on(Worker& worker) {
  Write& write = worker.job.front();
  if (write.begun) {
    end(worker, write);
    worker.job.pop_front();
  } else {
    begin(worker, write);
  }
  return true;
}

void Hosts::begin(Worker& worker, Write& write) {
  SimBoard& board = *hosts_[worker.host].board;
  const auto who = [&] { return "worker " + std::to_string(worker.uid.value() & 0xff); };
  if (write.piece) {
    board.piece(worker.place, write.item.index, write.item.bucket) = {0, kTorn, true};
  } else if (link::has(board, write.item)) {  // somebody has left it there
    worker.job.pop_front();
    return;
  } else {
    if (write.item.kind == Kind::kChunk) write.value = sum(worker, write).value_or(kTorn);
    if (write.item.kind == Kind::kTable) write.table = next_table(worker);
    note([&] {
      return "host " + std::to_string(worker.host) + " " + who() + " begins " + name(write.item);
    });
    begin_write(worker.host, write.item, who());
  }
  write.begun = true;
}

void Hosts::end(Worker& worker, Write& write) {
  SimBoard& board = *hosts_[worker.host].board;
  if (write.piece) {
    board.piece(worker.place, write.item.index, write.item.bucket) = {worker.txn + 1, write.value,
                                                                      false};
    board.touch();
    return;
  }
  for (const auto& [cell, value] : write.read)
    require(cell->mark == worker.txn + 1 && cell->value == value,
            "I6: what " + name(write.item) + " is summed from on host " +
                std::to_string(worker.host) + " is written over");
  note([&] { return "host " + std::to_string(worker.host) + " has " + name(write.item); });
  end_write(worker.host, write.item, write.value, write.table ? &*write.table : nullptr);
}

void Hosts::apply(Worker& worker) {
  const SimBoard& board = *hosts_[worker.host].board;
  const std::uint64_t t = worker.txn;
  note([&] {
    return "host " + std::to_string(worker.host) + ": t" + std::to_string(t) +
           " is whole, a worker applies it";
  });
  plan_.contents(t).for_each(t, [&](const Item& item) {
    const Cell& cell = board.cell(item);
    require(cell.mark == t + 1 && !cell.writing, "I6: " + name(item) + " is gone on host " +
                                                     std::to_string(worker.host) +
                                                     " before all have applied it");
    if (item.kind == Kind::kChunk) worker.state = mixed(worker.state, cell.value);
  });
  ++worker.txn;
  hosts_[worker.host].board->touch();
  require(worker.state == reference_.state(worker.txn), "I2: a state that is not the reference's");
}

bool Hosts::choose_job(Worker& worker) {
  const SimBoard& board = *hosts_[worker.host].board;
  const std::uint64_t t = worker.txn;
  const coord::Ownership& owners = board.ownership(t);
  const std::vector<coord::Member>& members = board.table(t)->members;
  const auto found = std::ranges::find(members, worker.uid, &coord::Member::uid);
  const auto me = static_cast<std::uint32_t>(found - members.begin());
  std::vector<std::deque<Write>> jobs;
  add_shares(worker, me, jobs);
  const bool done = jobs.empty();
  add_chunks(worker, me, jobs);
  const Item next = link::table_of(t + 1);
  if (done && !link::has(board, next) && owners.alive(me) && owners.first_live() == me)
    jobs.push_back({{.item = next, .value = ++names_, .table = {}}});
  if (jobs.empty()) return false;
  worker.job = std::move(jobs[random_.between(0, jobs.size() - 1)]);
  return true;
}

void Hosts::add_shares(Worker& worker, std::uint32_t me, std::vector<std::deque<Write>>& jobs) {
  const SimBoard& board = *hosts_[worker.host].board;
  const std::uint64_t t = worker.txn;
  const link::Contents& contents = plan_.contents(t);
  for (const std::uint32_t v : board.ownership(t).items_of(me)) {
    if (contents.cells > 0) {
      const Item cell{.txn = Txn(t), .kind = Kind::kCell, .index = v};
      if (!link::has(board, cell)) jobs.push_back({{.item = cell, .value = ++names_, .table = {}}});
      continue;
    }
    auto job = share_job(worker, v);
    if (!job.empty()) jobs.push_back(std::move(job));
  }
}

// Empty: all of it is there that somebody still needs.
std::deque<Hosts::Write> Hosts::share_job(const Worker& worker, std::uint32_t v) const {
  const SimBoard& board = *hosts_[worker.host].board;
  const std::uint64_t t = worker.txn;
  const link::Contents& contents = plan_.contents(t);
  const std::uint64_t share = Reference::share(worker.state, t, v);
  std::deque<Write> job;
  bool needed = false;
  for (std::uint32_t b = 0; b < contents.chunks.size(); ++b) {
    if (board.piece(worker.place, v, b).mark == t + 1) continue;
    for (std::uint32_t c = 0; c < contents.chunks[b]; ++c)
      needed = needed ||
               !link::has(board, {.txn = Txn(t), .kind = Kind::kChunk, .bucket = b, .index = c});
    job.push_back({.piece = true,
                   .item = {.bucket = b, .index = v},
                   .value = Reference::leaf(share, b),
                   .table = {}});
  }
  const auto add = [&](Kind kind, std::uint32_t index, std::uint64_t value) {
    const Item item{.txn = Txn(t), .kind = kind, .index = index};
    if (link::has(board, item)) return;
    needed = true;
    job.push_back({.item = item, .value = value, .table = {}});
  };
  if (contents.rows > 0) add(Kind::kRow, v, mixed(share, 0x40b5));
  if (contents.buffers > 0 && v == 0) add(Kind::kBuffers, 0, mixed(share, 0xb0ff));
  add(Kind::kRecord, v, mixed(worker.uid.value(), v));  // depends on who computes it
  if (!needed) job.clear();
  return job;
}

void Hosts::add_chunks(Worker& worker, std::uint32_t me, std::vector<std::deque<Write>>& jobs) {
  const SimBoard& board = *hosts_[worker.host].board;
  const std::uint64_t t = worker.txn;
  const auto& chunks = plan_.contents(t).chunks;
  for (std::uint32_t b = 0; b < chunks.size(); ++b)
    for (std::uint32_t c = 0; c < chunks[b]; ++c) {
      const Item item{.txn = Txn(t), .kind = Kind::kChunk, .bucket = b, .index = c};
      if (board.ownership(t).chunk_owner(c, chunks[b], b) != me || link::has(board, item)) continue;
      Write write{.item = item, .table = {}};
      if (sum(worker, write)) jobs.push_back({write});
    }
}

// Of a chunk, from pieces of this host's members and from other hosts' nodes, which it notes. None:
// not all are there yet.
std::optional<std::uint64_t> Hosts::sum(const Worker& worker, Write& write) const {
  const Host& host = hosts_[worker.host];
  const SimBoard& board = *host.board;
  const std::uint64_t t = worker.txn;
  const std::vector<coord::Member>& members = board.table(t)->members;
  std::vector<std::pair<coord::Node, std::uint64_t>> parts;
  write.read.clear();
  for (const coord::Piece& piece : board.ownership(t).pieces()) {
    const Stay stay = coord::stay_of(members[piece.member].uid);
    Item node{.txn = Txn(t),
              .kind = Kind::kNode,
              .host = stay.host,
              .level = piece.node.level,
              .node = piece.node.index,
              .bucket = write.item.bucket,
              .index = write.item.index};
    const bool remote = stay != host.stay;
    if (remote) write.read.emplace_back(&board.cell(node), board.cell(node).value);
    parts.emplace_back(piece.node, remote ? board.cell(node).value : board.value(node));
    bool there = board.mark(node) == t + 1;
    if (remote && trouble_.planted == Planted::kPerBucket)
      for (node.index = 0; node.index < trouble_.shape.chunks[node.bucket]; ++node.index)
        there = there || board.mark(node) == t + 1;
    if (!there) return {};
  }
  const std::uint64_t root = folded(reference_.root(), trouble_.shape.virtual_workers,
                                    [&](coord::Node node) -> std::optional<std::uint64_t> {
                                      for (const auto& [part, value] : parts)
                                        if (part == node) return value;
                                      return {};
                                    });
  return Reference::chunk(root, write.item.index);
}

void Hosts::add_comer(coord::Table& table, std::uint64_t txn, const SimBoard& board) {
  for (const Worker& worker : workers_) {
    const Host& host = hosts_[worker.host];
    const Cell& ready = board.cell(link::ready_of(txn, host.stay, worker.place));
    const bool is_ready = ready.mark == txn + 1 && ready.value == worker.uid.value();
    // Nobody sends anything under a stay that is over: the mistake would show less.
    const bool unsent = trouble_.planted == Planted::kStayAgain && worker.comes &&
                        worker.has_image && worker.txn == txn;
    if (!(is_ready || unsent) || !worker.alive ||
        (coord::is_dead(board.deaths(), worker.uid) && trouble_.planted != Planted::kStayAgain) ||
        random_.chance(0.2))
      continue;
    const bool known = trouble_.planted == Planted::kListedEarly ||
                       trouble_.planted == Planted::kStayAgain ||
                       link::contains(listable_, host.stay);
    const bool is_there = link::takes_part(table, host.stay);
    if (outside(worker.host) ? is_there || !known : !is_there) continue;
    const auto behind = [&](const auto& one) { return one.stay > host.stay; };
    if (!is_there) table.hosts.insert(std::ranges::find_if(table.hosts, behind), {host.stay, 1});
    const auto member = std::ranges::find_if(table.members, [&](const coord::Member& one) {
      return coord::stay_of(one.uid) > host.stay;
    });
    table.members.insert(member, {worker.uid, Slot(worker.place)});
  }
}

// Without those that are dead, as this board knows; of other hosts' workers as the leader may have
// proposed. A host with nobody alive stays until its round.
coord::Table Hosts::next_table(const Worker& worker) {
  const SimBoard& board = *hosts_[worker.host].board;
  const coord::Table& last = *board.table(worker.txn);
  coord::Table next{.txn = Txn(worker.txn + 1), .generation = {}, .members = {}};
  const bool knows = random_.chance(0.5);
  for (const coord::Host& host : last.hosts) {
    if (coord::is_dead(board.deaths(), coord::death_of(host.stay))) continue;
    std::vector<coord::Member> all, alive;
    for (const coord::Member& member : last.members) {
      if (coord::stay_of(member.uid) != host.stay) continue;
      all.push_back(member);
      const bool here = host.stay == hosts_[worker.host].stay;
      const auto dead = here ? board.deaths() : hosts_[host.stay.host].board->deaths();
      if (!(here || knows) || !coord::is_dead(dead, member.uid)) alive.push_back(member);
    }
    const std::vector<coord::Member>& members = alive.empty() ? all : alive;
    next.members.insert(next.members.end(), members.begin(), members.end());
    next.hosts.push_back(host);
  }
  add_comer(next, worker.txn, board);
  return next;
}

}  // namespace lockstep::simulation
