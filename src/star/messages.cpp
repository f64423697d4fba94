#include "star/messages.h"

#include <array>
#include <type_traits>
#include <utility>

#include "base/errors.h"
#include "base/wire.h"
#include "control/connection.h"

namespace lockstep::star {
namespace {

// Each message's fields, in the order of the wire; the one list serves writer and reader.
namespace msg = message;

template <Is<msg::Hello> M>
void fields(auto& io, M& m) {
  io(m.run_id), io(m.host), io(m.nodes), io(m.max_restarts), io(m.rank_given), io(m.limit_ns);
  io(m.program);
  io(m.local_address), io(m.version), io(m.linked), io(m.tie_break);
  io(m.endpoints), io(m.looks);
}
template <Is<msg::Leads> M>
void fields(auto& io, M& m) {
  io(m.attempt), io(m.active);
}
template <Is<msg::Welcome> M>
void fields(auto& io, M& m) {
  io(m.host), io(m.address);
}
template <Is<msg::Refused> M>
void fields(auto& io, M& m) {
  io.one_of(m.reason, msg::Reason::kOtherOption);
  io(m.option), io(m.text);
}
template <Is<nodes::Row> M>
void fields(auto& io, M& m) {
  io(m.rank), io(m.address), io(m.machine), io(m.incarnation), io(m.workers), io(m.role);
  io(m.host);
}
template <Is<nodes::Store> M>
void fields(auto& io, M& m) {
  io(m.attempt), io(m.address), io(m.port), io(m.served);
}
template <Is<nodes::Failure> M>
void fields(auto& io, M& m) {
  io(m.attempt), io(m.age_ns), io(m.text), io(m.code), io(m.final), io(m.rank), io(m.by_signal);
  io(m.has_error_file);
}
template <Is<nodes::Final> M>
void fields(auto& io, M& m) {
  io(m.code), io(m.text), io(m.node);
}
template <Is<nodes::NodeWord> M>
void fields(auto& io, M& m) {
  const auto each = [](auto& of, auto& part) { fields(of, part); };
  each(io, m.row);
  io(m.run), io(m.told), io(m.ran), io(m.alive), io(m.ended), io(m.has_lock), io(m.led_from);
  io.maybe(m.store, each);
  io.maybe(m.failure, each);
  io(m.signal), io(m.signal_by), io(m.stop_why), io(m.kill_all);
  io.maybe(m.final, each);
  io(m.leader), io(m.sent), io(m.echo);
}
template <Is<nodes::LeaderWord> M>
void fields(auto& io, M& m) {
  io(m.incarnation), io(m.machine), io(m.run), io(m.rank), io(m.leader_rank);
  io(m.refusal), io(m.refusal_code);
  io(m.attempt), io(m.runs), io(m.base_rank), io(m.world), io(m.role_base), io(m.role_world);
  const auto each = [](auto& of, auto& part) { fields(of, part); };
  io.maybe(m.store, each);
  io(m.waits_for), io(m.why), io(m.signal);
  io.maybe(m.final, each);
  io(m.over), io(m.limit), io(m.age), io(m.sent), io(m.echo);
}
template <Is<msg::StatusQuery> M>
void fields(auto& io, M& m) {
  io(m.from);
}
template <Is<msg::StopOrder> M>
void fields(auto& io, M& m) {
  io(m.host);
}
template <Is<nodes::Member> M>
void fields(auto& io, M& m) {
  io(m.rank), io(m.known), io(m.connected), io(m.works), io(m.address), io(m.host), io(m.workers);
  io(m.silent_ns);
}
template <Is<nodes::View> M>
void fields(auto& io, M& m) {
  io.one_of(m.state, nodes::View::State::kEnding);
  io(m.leads), io(m.fenced), io(m.rank), io(m.leader_rank), io(m.nodes), io(m.max_restarts);
  io(m.attempt), io(m.world);
  const auto each = [](auto& of, auto& part) { fields(of, part); };
  io.maybe(m.store, each);
  io(m.why), io(m.waits_ns), io(m.left_ns);
  io(m.newcomers), io(m.waits_for);
  io.list(m.members, each);
}
template <Is<msg::Answer> M>
void fields(auto& io, M& m) {
  io(m.run_id), io(m.host), io(m.endpoint), io(m.trouble), io(m.stops);
  fields(io, m.view);
}
template <Is<msg::Failed> M>
void fields(auto& io, M& m) {
  io(m.rank), io(m.local_rank), io(m.pid), io(m.exit_code), io(m.time_ms), io(m.host);
  io(m.error_file), io(m.is_file), io(m.text);
}

template <Is<msg::Claim> M>
void fields(auto& io, M& m) {
  io(m.rank), io(m.incarnation), io(m.workers), io(m.link_port), io(m.agent_port), io(m.run);
}
template <Is<msg::Formed::Host> M>
void fields(auto& io, M& m) {
  io(m.address), io(m.link_port), io(m.agent_port), io(m.incarnation), io(m.workers);
  io(m.cookie);
}
template <Is<msg::Formed> M>
void fields(auto& io, M& m) {
  io(m.self), io(m.run), io(m.limit_ns);
  io.list(m.hosts, [](auto& of, auto& host) { fields(of, host); });
}
static_assert(msg::kMostTalkBytes ==
              control::kMostFrameBytes - sizeof(std::uint16_t) - sizeof(std::uint32_t));
template <Is<msg::Talk> M>
void fields(auto& io, M& m) {
  io(m.frame);
}

}  // namespace

Result<std::string> encode(const Message& message) {
  WireWriter whole;
  whole(static_cast<std::uint16_t>(message.index() + 1));
  std::visit([&](const auto& m) { fields(whole, m); }, message);
  std::string text = whole.take();
  if (text.size() > control::kMostFrameBytes)
    return misuse("message of type " + std::to_string(message.index() + 1) + " has " +
                  std::to_string(text.size()) + " bytes, limit " +
                  std::to_string(control::kMostFrameBytes));
  return text;
}

Result<Message> decode(std::string_view frame) {
  WireReader reader(frame.substr(0, sizeof(std::uint16_t)));
  std::uint16_t type = 0;
  reader(type);
  if (type == 0 || type > std::variant_size_v<Message>)
    return bad_data("message of unknown type " + std::to_string(type));
  WireReader body(frame.substr(sizeof type));
  auto message =
      read_alternative<Message>(body, type - 1u, [](auto& io, auto& m) { fields(io, m); });
  if (!body.fault().empty())
    return bad_data("message of type " + std::to_string(type) + ": " + body.fault());
  return message;
}

}  // namespace lockstep::star
