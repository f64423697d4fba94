#include "simulation/plain_hosts.h"

#include <algorithm>
#include <csignal>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "coord/plain/one_host.h"
#include "coord/plain/several_hosts.h"
#include "nodes/leader.h"

namespace lockstep::simulation {
namespace {

using namespace coord;  // NOLINT(google-build-using-namespace)

constexpr std::uint64_t kMs = 1'000'000, kSecond = 1'000'000'000;

struct Process {
  int attempt = 0;
  bool forked = false, alive = true;
  int pending_kill = 0;
  bool ignores_term = false, stuck = false;  // stuck: only SIGKILL ends it
};

constexpr std::uint64_t kBeat = 250 * kMs;

// A host: its head, what it has said to the leader, and its processes.
struct Host {
  std::unique_ptr<Head> head;
  plain::SeveralHosts* several = nullptr;  // the head, where there are other hosts
  std::uint64_t said = 0;                  // version of its node's word
  std::map<WorkerUid, Process> processes;
  std::uint64_t frozen_until = 0, heard_until = 0, told_until = 0;  // words keep their order
  std::uint64_t tick_at = 0;
  std::uint64_t left_until = 0;  // what its workers have started lives,
  int left_by = 0;               // of this attempt
  int signals = 0;               // to its launcher
  std::optional<int> exit_code;
};

class PlainHosts {
 public:
  explicit PlainHosts(std::uint64_t seed) : random_(seed) {
    const int hosts = pick(1, 3);
    max_restarts_ = pick(0, 3);
    stopped_job_ = chance(15);
    failure_percent_ = stopped_job_ ? 0 : pick(0, 40);
    message_ms_ = chance(30) ? 0 : pick(1, 300);
    std::vector<int> workers(static_cast<std::size_t>(hosts));
    for (int& count : workers) count = pick(1, 4);
    if (hosts == 1) {
      hosts_.emplace_back().head =
          std::make_unique<plain::OneHost>(plain::HostConfig{.workers = workers[0]}, max_restarts_);
      return;
    }
    rules_.nodes = hosts;
    rules_.max_restarts = max_restarts_;
    for (int i = 0; i < hosts; ++i) join(i, workers[static_cast<std::size_t>(i)]);
  }

  PlainOutcome play() {
    at(kMs, [this] {
      for (std::size_t i = 0; i < hosts_.size(); ++i) feed(static_cast<int>(i), event::Start{});
    });
    if (leader_ != nullptr) beat();
    plan_signals();
    for (int i = pick(0, 2); i > 0; --i) at(millis(0, 20'000), [this] { freeze(); });
    while (!queue_.empty() && out_.violation.empty() && !all_stopped()) {
      const Item next = queue_.top();
      queue_.pop();
      now_ = next.at;
      if (now_ > 3600 * kSecond) violate("the run does not end");
      next.what();
    }
    if (out_.violation.empty()) check_end();
    return std::move(out_);
  }

 private:
  struct Item {
    std::uint64_t at, number;
    std::function<void()> what;
    bool operator>(const Item& other) const {
      return std::pair(at, number) > std::pair(other.at, other.number);
    }
  };

  int pick(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  std::uint64_t millis(int least, int most) {
    return static_cast<std::uint64_t>(pick(least, most)) * kMs;
  }
  void at(std::uint64_t when, std::function<void()> what) {
    queue_.push({std::max(when, now_), ++numbers_, std::move(what)});
  }
  void violate(const std::string& what) {
    if (out_.violation.empty()) out_.violation = what;
  }
  void note(int host, const std::string& what) {
    out_.journal +=
        std::to_string(now_ / kMs) + " ms, host " + std::to_string(host) + ": " + what + "\n";
  }

  // What the agent of a frozen host gets waits with it.
  void feed(int index, const Event& event) {
    Host& host = hosts_[static_cast<std::size_t>(index)];
    if (host.exit_code) return;
    if (host.frozen_until > now_) return at(host.frozen_until, [=, this] { feed(index, event); });
    host.signals += std::holds_alternative<event::Signal>(event) ? 1 : 0;
    obey(index, host.head->handle(event, now_));
    if (host.head->looks_for_left()) sweep(index);
    if (host.several != nullptr) talk(index);
    set_tick(index);
  }

  void sweep(int index) {
    Host& host = hosts_[static_cast<std::size_t>(index)];
    if (host.left_until <= now_) host.head->nothing_is_left();
    at(host.left_until, [=, this] { feed(index, event::Tick{}); });
  }

  void join(int index, int workers) {
    const nodes::Row row{index,
                         "10.0.0." + std::to_string(index),
                         "machine" + std::to_string(index),
                         static_cast<nodes::Incarnation>(index) + 1,
                         static_cast<std::uint32_t>(workers),
                         "default"};
    auto head = std::make_unique<plain::SeveralHosts>(plain::HostConfig{.workers = workers}, rules_,
                                                      row, now_);
    head->node().has_taken_lock();
    if (index == 0)
      leader_ = std::make_unique<nodes::Leader>(rules_, row, 1, nodes::Leader::Record{}, now_);
    Host& host = hosts_.emplace_back();
    host.several = head.get();
    host.head = std::move(head);
  }
  // What a launcher does after each turn of its head.
  void talk(int index) {
    Host& host = hosts_[static_cast<std::size_t>(index)];
    nodes::Node& node = host.several->node();
    if (const auto attempt = node.wish().serve; attempt != 0)
      node.serves({attempt, "10.0.0.0", 29'500, true});
    if (const auto attempt = node.wish().run; attempt != 0) {
      host.several->reached_store(attempt);
      at(now_ + millis(0, 10), [=, this] { feed(index, event::Tick{}); });
    }
    if (std::exchange(host.said, node.version()) == node.version()) return;
    const nodes::NodeWord word = node.word(now_);
    host.told_until = std::max(host.told_until, now_ + (index == 0 ? 0 : millis(0, message_ms_)));
    at(host.told_until, [=, this] { hear(index, word); });
  }
  void hear(int index, const nodes::NodeWord& word) {
    if (hosts_[0].exit_code) return;
    if (hosts_[0].frozen_until > now_)
      return at(hosts_[0].frozen_until, [=, this] { hear(index, word); });
    leader_->heard(link_of(index), word, now_);
    tell();
  }
  void tell() {
    const bool all = std::exchange(told_, leader_->version()) != leader_->version();
    const std::vector<nodes::Link> due = leader_->take_due();
    for (int i = 0; i < static_cast<int>(hosts_.size()); ++i) {
      if (!all && std::ranges::find(due, link_of(i)) == due.end()) continue;
      Host& host = hosts_[static_cast<std::size_t>(i)];
      host.heard_until = std::max(host.heard_until, now_ + (i == 0 ? 0 : millis(0, message_ms_)));
      at(host.heard_until,
         [this, i, word = leader_->word_for(link_of(i), now_)] { deliver(i, word); });
    }
  }
  void deliver(int index, const nodes::LeaderWord& word) {
    Host& host = hosts_[static_cast<std::size_t>(index)];
    if (host.exit_code) return;
    if (host.frozen_until > now_) return at(host.frozen_until, [=, this] { deliver(index, word); });
    host.several->node().heard(word, now_);
    feed(index, event::Tick{});
  }
  void beat() {
    for (int i = 0; i < static_cast<int>(hosts_.size()); ++i) {
      hosts_[static_cast<std::size_t>(i)].said = 0;
      feed(i, event::Tick{});
    }
    if (!hosts_[0].exit_code && hosts_[0].frozen_until <= now_) {
      leader_->tick(now_);
      told_ = 0;
      tell();
    }
    at(now_ + kBeat, [this] { beat(); });
  }
  static nodes::Link link_of(int index) { return static_cast<nodes::Link>(index); }
  void set_tick(int index) {
    Host& host = hosts_[static_cast<std::size_t>(index)];
    const std::uint64_t due = host.head->next_deadline(now_);
    if (host.exit_code || (host.tick_at > now_ && host.tick_at <= due)) return;
    host.tick_at = std::max(due, now_ + kMs);
    at(host.tick_at, [=, this, set = host.tick_at] {
      Host& of = hosts_[static_cast<std::size_t>(index)];
      if (of.tick_at == set) feed(index, event::Tick{});
    });
  }

  void obey(int index, const Actions& actions) {
    for (const Action& action : actions) {
      if (const auto* spawn = std::get_if<action::Spawn>(&action.what)) start(index, *spawn);
      if (const auto* kill = std::get_if<action::Kill>(&action.what)) {
        signal(index, kill->uid, kill->signal);
      }
      if (const auto* print = std::get_if<action::Print>(&action.what)) {
        note(index, print->text);
        if (print->text.find("; killed") != std::string::npos) ++out_.killed_late;
      }
      if (const auto* stop = std::get_if<action::Stop>(&action.what)) on_stop(index, *stop);
    }
  }

  void start(int index, const action::Spawn& spawn) {
    for (const Host& other : hosts_) {
      for (const auto& [uid, process] : other.processes)
        if (process.alive && process.attempt != spawn.restart_count)
          violate("workers of two attempts are alive");
      if (other.left_until > now_ && other.left_by != spawn.restart_count)
        violate("what workers have started meets the next attempt");
    }
    if (spawn.restart_count > attempt_) {
      if (spawn.restart_count != attempt_ + 1) violate("a restart was charged twice");
      if (!failed_.contains(attempt_)) violate("a restart without a failure");
      attempt_ = spawn.restart_count;
    }
    Host& host = hosts_[static_cast<std::size_t>(index)];
    if (host.signals != 0) violate("a launcher that was told to end starts a worker");
    host.processes[spawn.uid] = {.attempt = spawn.restart_count, .ignores_term = chance(10)};
    const bool fails = chance(failure_percent_ / 8);
    at(now_ + millis(0, 30), [=, this, uid = spawn.uid] {
      Process& process = hosts_[static_cast<std::size_t>(index)].processes.at(uid);
      if (fails) {
        process.alive = false;
        ++out_.spawn_failures;
        return feed(index, event::SpawnFailed{uid, "no memory"});
      }
      process.forked = true;
      feed(index, event::Forked{uid, 100});
      live(index, uid);
    });
  }

  void live(int index, WorkerUid uid) {
    Process& process = hosts_[static_cast<std::size_t>(index)].processes.at(uid);
    if (process.pending_kill != 0) signal(index, uid, process.pending_kill);
    const bool fails = chance(failure_percent_);
    static constexpr ExitStatus kFailures[] = {{1, 0},        {1, 0},        {-1, SIGKILL},
                                               {-1, SIGTERM}, {143, 0},      {-1, SIGSEGV},
                                               {65, 0},       {-1, SIGKILL}, {3, 0}};
    const ExitStatus status =
        fails ? kFailures[static_cast<std::size_t>(pick(0, 8))] : ExitStatus{0, 0};
    die(index, uid, fails ? millis(0, 15'000) : millis(10'000, 15'000), status);
  }

  // Once, of whatever comes first; SIGCHLD tells of several in any order.
  void die(int index, WorkerUid uid, std::uint64_t in, ExitStatus status) {
    at(now_ + in, [=, this] {
      Process& process = hosts_[static_cast<std::size_t>(index)].processes.at(uid);
      if (!process.alive || (process.stuck && status.signal != SIGKILL)) return;
      process.alive = false;
      if (status.code != 0 && chance(30)) {
        Host& host = hosts_[static_cast<std::size_t>(index)];
        host.left_until = std::max(host.left_until, now_ + millis(0, 600));
        host.left_by = process.attempt;
      }
      if (status.code != 0) {
        failed_.insert(process.attempt);
        ++out_.deaths;
      }
      note(index, "worker " + std::to_string(uid.value()) + " ended with " + describe(status));
      at(now_ + millis(0, 5), [=, this] { feed(index, event::Exited{uid, status}); });
    });
  }

  void signal(int index, WorkerUid uid, int number) {
    Host& host = hosts_[static_cast<std::size_t>(index)];
    const auto it = host.processes.find(uid);
    if (it == host.processes.end() || !it->second.alive) return;
    if (!it->second.forked) {
      it->second.pending_kill = number;
    } else if (number == SIGKILL) {
      die(index, uid, chance(20) ? millis(0, 5000) : millis(0, 20), {-1, SIGKILL});
    } else if (it->second.ignores_term) {
      it->second.stuck = true;
    } else {
      static constexpr ExitStatus kEnds[] = {{-1, SIGTERM}, {143, 0}, {0, 0}, {1, 0}};
      die(index, uid, millis(0, 3000), kEnds[stopped_job_ ? 0 : pick(0, 3)]);
    }
  }

  void to_launcher(int index, int number) {
    if (hosts_[static_cast<std::size_t>(index)].exit_code) return;
    signals_.insert(number);
    ++out_.signals;
    note(index, "its launcher gets " + std::to_string(number));
    feed(index, event::Signal{number});
  }

  // To a launcher at some time; or to all processes of a job, launchers last.
  void plan_signals() {
    const int last = static_cast<int>(hosts_.size()) - 1;
    if (stopped_job_) {
      const std::uint64_t when = millis(1000, 8000);
      at(when, [this] {
        for (std::size_t i = 0; i < hosts_.size(); ++i)
          for (const auto& [uid, process] : hosts_[i].processes)
            if (process.alive) die(static_cast<int>(i), uid, millis(0, 100), {-1, SIGTERM});
      });
      for (int i = 0; i <= last; ++i)
        at(when + millis(0, 900), [=, this] { to_launcher(i, SIGTERM); });
    } else if (chance(40)) {
      for (int i = pick(1, 3); i > 0; --i)
        at(millis(0, 25'000),
           [=, this, to = pick(0, last), number = chance(50) ? SIGTERM : SIGINT] {
             to_launcher(to, number);
           });
    }
  }

  void freeze() {
    if (stopped_job_) return;
    hosts_[static_cast<std::size_t>(pick(0, static_cast<int>(hosts_.size()) - 1))].frozen_until =
        now_ + millis(10, 4000);
    ++out_.frozen;
  }

  void on_stop(int index, const action::Stop& stop) {
    note(index, "ends with " + std::to_string(stop.exit_code));
    Host& host = hosts_[static_cast<std::size_t>(index)];
    if (host.exit_code) violate("a second Stop");
    host.exit_code = stop.exit_code;
    for (const Host& other : hosts_)
      for (const auto& [uid, process] : other.processes)
        // By a second signal a launcher goes without an answer of the others'.
        if (process.alive && (&other == &host || host.signals < 2))
          violate("a worker outlives the run");
  }
  bool all_stopped() const {
    return std::all_of(hosts_.begin(), hosts_.end(),
                       [](const Host& host) { return host.exit_code.has_value(); });
  }

  void check_end() {
    if (!all_stopped()) return violate("a launcher does not end");
    const int code = *hosts_[0].exit_code;
    for (const Host& host : hosts_)
      if (host.exit_code != code) violate("launchers end with different codes");
    if (code > 128 && !signals_.contains(code - 128)) violate("a signal that nobody has sent");
    if (code == 0 && failed_.contains(attempt_)) violate("a failed attempt ended well");
    if (code == 69 && out_.spawn_failures == 0) violate("69 without a cause");
    if ((code == 1 || code == 75) && attempt_ != max_restarts_) violate("a restart was left");
    if (stopped_job_ && (code != 143 || attempt_ != 0))
      violate("a job that was stopped has failed");
    if (attempt_ > max_restarts_) violate("more restarts than allowed");
    out_.restarts = static_cast<std::uint64_t>(attempt_);
    out_.stopped_jobs = stopped_job_ ? 1 : 0;
    out_.good_ends = code == 0 ? 1 : 0;
  }

  std::mt19937_64 random_;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> queue_;
  std::uint64_t now_ = 0, numbers_ = 0;
  std::vector<Host> hosts_;
  nodes::Rules rules_;
  std::unique_ptr<nodes::Leader> leader_;  // of several hosts: on the first
  std::uint64_t told_ = 0;                 // version of its words
  int max_restarts_ = 0, failure_percent_ = 0, message_ms_ = 0;
  bool stopped_job_ = false;
  int attempt_ = 0;  // restarts seen
  std::set<int> failed_, signals_;
  PlainOutcome out_;
};

}  // namespace

PlainOutcome run_plain_schedule(std::uint64_t seed) { return PlainHosts(seed).play(); }

}  // namespace lockstep::simulation
