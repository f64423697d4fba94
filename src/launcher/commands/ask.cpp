#include "launcher/commands/ask.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "base/log.h"
#include "control/dial.h"
#include "control/key.h"
#include "control/sockets.h"
#include "control/timers.h"
#include "launcher/nodes/answers.h"
#include "launcher/nodes/meeting.h"
#include "launcher/options/options.h"
#include "launcher/output/host_name.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
using control::Connection;
using control::Outcome;
using star::message::Answer;

constexpr auto kAskingTime = 10s, kAskingTimeHere = 5s;

star::Message message_of(const Question& question, std::int32_t from) {
  if (question.what == Question::What::kStop) return star::message::StopOrder{host_name()};
  return star::message::StatusQuery{from};
}

// One conversation, in a loop of its own.
class Asking {
 public:
  static Result<std::unique_ptr<Asking>> open(const Question& question) {
    LOCKSTEP_ASSIGN(Loop loop, Loop::open());
    std::unique_ptr<Asking> made(new Asking(std::move(loop), question));
    LOCKSTEP_ASSIGN(made->timers_, control::Timers::open(made->loop_));
    return made;
  }

  void dial(control::Dial::Plan plan) {
    plan.self = self_;
    dial_ = control::Dial::start(loop_, *timers_, std::move(plan),
                                 [this](const auto& connection, const control::Failure& failure) {
                                   connection ? talk(connection) : fail(failure);
                                 });
  }
  void connect(UniqueFd socket, const std::string& name) {
    Connection::Events events;
    events.open = [this](const control::Party&) { talk(connection_); };
    events.ended = [this](const control::Failure& failure) { fail(failure); };
    connection_ =
        Connection::start(loop_, *timers_, std::move(socket),
                          {control::Side::kDials, self_, nullptr, "", name}, std::move(events));
  }
  void go_on(Deadline until) { loop_.run_once(until); }
  bool is_done() const { return done_; }
  // Once it is done, or was given up.
  Result<Answer> result() {
    if (connection_) connection_->close();
    if (done_ && !failure_) return std::move(answer_);
    return Error{ErrorKind::kUnavailable, failure_ ? failure_->text
                                                   : "a launcher is there, but gives no answer "
                                                     "in time: is it stopped?"};
  }
  Result<Answer> wait() {
    const Deadline end = Deadline::in(kAskingTime);
    while (!done_ && !end.passed()) go_on(end);
    return result();
  }
  bool found_nobody() const { return failure_ && failure_->outcome == Outcome::kRefused; }

 private:
  Asking(Loop loop, const Question& question) : loop_(std::move(loop)), question_(question) {}

  void talk(const std::shared_ptr<Connection>& connection) {
    connection_ = connection;
    Connection::Events events;
    events.frame = [this](std::string_view frame) { hear(frame); };
    events.ended = [this](const control::Failure& failure) { fail(failure); };
    connection_->hear(std::move(events));
    ask(0);
  }
  void ask(std::int32_t from) {
    if (const auto text = star::encode(message_of(question_, from)); text.ok())
      connection_->send(*text);
  }
  void hear(std::string_view frame) {
    auto message = star::decode(frame);
    auto* const part = message.ok() ? std::get_if<Answer>(&*message) : nullptr;
    if (part == nullptr)
      return fail({Outcome::kBroken, connection_->name() + " gave no answer to this question"});
    auto members = std::move(answer_.view.members);
    const std::size_t before = members.size();
    std::ranges::move(part->view.members, std::back_inserter(members));
    const bool more = question_.what == Question::What::kStatus && part->view.leads &&
                      members.size() > before && members.back().rank + 1 < part->view.nodes;
    answer_ = std::move(*part);
    answer_.view.members = std::move(members);
    more ? ask(answer_.view.members.back().rank + 1) : void(done_ = true);
  }
  // Who has answered may end at once.
  void fail(const control::Failure& failure) {
    if (done_) return;
    failure_ = failure;
    done_ = true;
  }

  Loop loop_;
  const Question question_;
  const control::Party self_{control::kProtocol, control::draw_incarnation(), LOCKSTEP_VERSION};
  std::unique_ptr<control::Timers> timers_;
  std::unique_ptr<control::Dial> dial_;
  std::shared_ptr<Connection> connection_;
  Answer answer_;
  std::optional<control::Failure> failure_;
  bool done_ = false;
};

}  // namespace

Result<Answer> ask_endpoint(const std::string& host, int port, const Question& question) {
  control::Dial::Plan plan;
  plan.host = host;
  plan.port = port;
  const bool near = is_loopback_host(host);
  if (near) {
    plan.on_this_machine = true;
    LOCKSTEP_ASSIGN(const auto asking, Asking::open(question));
    asking->dial(plan);
    auto answer = asking->wait();
    if (answer.ok() || !asking->found_nobody()) return answer;
    plan.on_this_machine = false;
  }
  // Another one's endpoint may be this machine's own address.
  auto found =
      control::find_key(question.key_file.empty() ? std::nullopt : std::optional(question.key_file),
                        process_environment());
  if (!found.ok() && near)
    return Error{ErrorKind::kUnavailable,
                 "no launcher of this user leads a run at " + host + ", port " +
                     std::to_string(port) +
                     ", of this machine; those of several machines are asked with their key, and "
                     "there is none here (--key-file)"};
  if (!found.ok()) return found.error();
  if (found->key) {
    LOCKSTEP_ASSIGN(plan.tls, control::TlsSettings::of(*found->key));
  }
  LOCKSTEP_ASSIGN(const auto asking, Asking::open(question));
  asking->dial(plan);
  auto answer = asking->wait();
  if (answer.ok() || !asking->found_nobody()) return answer;
  return Error{answer.error().kind,
               answer.error().message +
                   "; only the launcher that leads answers there, on the endpoint's machine. On "
                   "each machine of the run its own do: lockstep status --id ID"};
}

Result<std::vector<Answer>> ask_this_machine(const std::string& run_id, const Question& question) {
  std::vector<std::unique_ptr<Asking>> all;  // at once: one that is stopped holds up nobody
  for (const std::string& name : control::names_on_this_machine(socket_names_of(run_id))) {
    auto socket = control::connect_by_name(name);
    if (!socket.ok() || !control::is_of_this_user(socket->get())) continue;
    LOCKSTEP_ASSIGN(auto asking, Asking::open(question));
    asking->connect(*std::move(socket), "a launcher on this machine");
    all.push_back(std::move(asking));
  }
  const auto waits = [](const auto& asking) { return !asking->is_done(); };
  for (const Deadline end = Deadline::in(kAskingTimeHere);
       !end.passed() && std::ranges::any_of(all, waits);)
    for (const auto& asking : all)
      if (waits(asking)) asking->go_on(Deadline::in(2ms));
  std::vector<Answer> answers;
  for (const auto& asking : all) {
    auto answer = asking->result();
    if (answer.ok())
      answers.push_back(*std::move(answer));
    else
      log_warning(answer.error().message);
  }
  if (answers.empty())
    return Error{ErrorKind::kUnavailable,
                 "no launcher of this user on this machine has a node of the run '" + run_id +
                     "' (--rdzv-id of a run on several nodes)"};
  std::ranges::sort(answers, {}, [](const Answer& answer) {
    return std::pair(!answer.view.leads, answer.view.rank);
  });
  return answers;
}

}  // namespace lockstep::launcher
