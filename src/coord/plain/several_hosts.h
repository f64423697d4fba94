// A plain run on several hosts, as one of them sees it: this host's part (host.h) does what its
// node (nodes/node.h) wishes, and the node is told what becomes of it. The run's part is
// nodes::Leader, on one of the hosts; words travel outside (the room star).
//
//   a word of the leader → node() → the next handle() obeys → the node's word has news
//
// No worker starts before reached_store(). Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "coord/head.h"
#include "coord/plain/host.h"
#include "nodes/node.h"

namespace lockstep::coord::plain {

class SeveralHosts final : public Head {
 public:
  SeveralHosts(const HostConfig& config, const nodes::Rules& rules, nodes::Row row,
               std::uint64_t now_ns);

  Actions handle(const Event& event, std::uint64_t now_ns) override;
  bool looks_for_left() const override { return host_.looks_for_left(); }
  void nothing_is_left() override { host_.nothing_is_left(); }
  RunStatus status() const override;
  std::uint64_t next_deadline(std::uint64_t now_ns) const override;

  // What it is told takes effect with the next handle(), event::Tick at the latest.
  nodes::Node& node() { return node_; }
  const nodes::Node& node() const { return node_; }
  // This host reaches the store of that attempt: its workers may start. `where`: its place in the
  // run, to be said when the first start.
  void reached_store(nodes::Attempt attempt, std::string where = {}) {
    reached_ = attempt;
    where_ = std::move(where);
  }

 private:
  void take(Told told);
  void on(const report::Well& well);
  void on(const report::Failed& failed);
  void on(const report::Gone& gone);
  void on(const report::Signalled& signalled);
  bool obey();
  bool begin(nodes::Attempt attempt);
  bool end(int signal);
  bool leave(const nodes::Final& final);
  void tell_end();
  std::string end_text(nodes::Attempt attempt);
  std::string again(nodes::Attempt attempt) const;
  std::string count(nodes::Attempt attempt) const;  // "1 of 3"
  void print(action::Severity severity, std::string text);

  const nodes::Rules rules_;
  Host host_;
  nodes::Node node_;
  std::uint64_t now_ = 0;
  nodes::Attempt reached_ = 0, begun_ = 0, end_told_ = 0;
  std::string where_;
  int signalled_ = 0;        // to the workers of the attempt that is begun
  bool stop_told_ = false;   // why all end
  bool waits_told_ = false;  // for whom, since the attempt's end
  bool over_ = false;
  Actions actions_;
};

}  // namespace lockstep::coord::plain
