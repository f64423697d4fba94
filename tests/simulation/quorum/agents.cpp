#include "agents.h"

#include <algorithm>

namespace lockstep::simulation {

using quorum::Facts;
using quorum::Role;
using quorum::Set;

bool BlunderingAgent::is_quorum(const Set& set, const quorum::Members& who) const {
  if (blunder_ == Blunder::kOriginal && first_) return Agent::is_quorum(first_, who);
  if (blunder_ == Blunder::kAnyHalf)
    return 2 * std::ranges::count_if(set.members, [&](auto& one) { return who.contains(one); }) >=
           static_cast<std::ptrdiff_t>(set.members.size());
  return Agent::is_quorum(set, who);
}

bool BlunderingAgent::elected_by_change() const {
  const bool comers = std::ranges::any_of(
      facts_->change.members, [this](const auto& one) { return !facts_->set.has(one); });
  return facts_->change && facts_->set &&
         (blunder_ == Blunder::kNewAlone || (blunder_ == Blunder::kComerAlone && comers));
}

bool BlunderingAgent::elects(const quorum::Members& votes) const {
  return elected_by_change() ? is_quorum(facts_->change, votes) : Agent::elects(votes);
}

std::uint64_t BlunderingAgent::quorum_age(std::uint64_t now) const {
  if (!elected_by_change()) return Agent::quorum_age(now);
  return quorum::age(peers_.quorum_since(facts_->change, self_, {}, now), now);
}

bool BlunderingAgent::may_vote(const quorum::Message& request, std::uint64_t now) const {
  if (blunder_ == Blunder::kTwice) return has_vote() && !hears_leader(now);
  return Agent::may_vote(request, now);
}

bool BlunderingAgent::is_in_force(const quorum::Members& acknowledged) const {
  if (blunder_ == Blunder::kNewAnswers || (blunder_ == Blunder::kSomeForm && !facts_->set))
    return is_quorum(facts_->change, acknowledged);
  return Agent::is_in_force(acknowledged);
}

bool BlunderingAgent::may_decide(const quorum::Members& members, std::uint64_t now) const {
  if (blunder_ == Blunder::kHostTwice && leads(now) && facts_->set && !facts_->change)
    return quorum::is_quorum(facts_->set, members, {}) &&
           members.size() > facts_->set.members.size();
  if (blunder_ == Blunder::kDrops && leads(now) && facts_->change && inherited_) {
    const Set stay = quorum::changed(facts_->set, members, 1);
    return stay.members.size() < facts_->set.members.size() && is_quorum(facts_->set, members);
  }
  return Agent::may_decide(members, now);
}

bool BlunderingAgent::obeys_maker(const quorum::Message& maker) const {
  return (blunder_ == Blunder::kTwoMakers && !facts_->set) || Agent::obeys_maker(maker);
}

std::uint64_t BlunderingAgent::leads_for() const {
  return blunder_ == Blunder::kLeadsOn ? quorum::kForever : Agent::leads_for();
}

Agents::Agents(std::uint64_t seed, const Weather& weather, bool traced)
    : weather_(weather), traced_(traced), random_(seed), to_all_(random_.chance(0.3)) {
  settings_.plain = weather.run != Run::kLinked;
  settings_.by_file = weather.by_file;
  settings_.join_timeout = 60 * kSecond;
  settings_.stagger = 1200 * kMillisecond;  // few heartbeats, of which it has to be twice one
  if (weather.blunder == Blunder::kNoGrace) settings_.grace = 0;
  for (std::size_t h = 0; h < weather.hosts; ++h) add(static_cast<std::uint16_t>(h), h + 1);
}

std::uint64_t Agents::now_of(const Host& host) const {
  return host.ahead + clock_.now() * host.rate / 100;
}

std::size_t Agents::add(std::uint16_t index, std::uint64_t place) {
  Host& host = agents_.emplace_back();
  host.place = place;
  host.rate = weather_.drift ? random_.between(88, 112) : 100;
  host.beat = random_.between(settings_.stagger / 4, settings_.stagger / 2);
  host.ahead = random_.between(0, kSecond);
  host.agent = std::make_unique<BlunderingAgent>(settings_, Member{index, 100 + agents_.size()},
                                                 now_of(host), weather_.blunder, first_);
  for (auto& row : cut_) row.push_back(0);
  cut_.emplace_back(agents_.size(), 0);
  const std::size_t at = agents_.size() - 1;
  note([&] { return name(host.agent->self()) + " is started"; });
  clock_.after(random_.between(0, host.beat), [this, at] { beat(at, 0); });
  return at;
}

void Agents::beat(std::size_t index, std::uint64_t number) {
  Host& host = agents_[index];
  if (!host.alive || host.paused || number != host.beats) return;
  host.agent->pass(now_of(host));
  serve(index);
  if (!host.alive) return;
  lead(index);
  tell(index);
  clock_.after(host.beat, [this, index, number] { beat(index, number); });
}

void Agents::tell(std::size_t index) {
  const Host& host = agents_[index];
  for (std::size_t to = 0; to < agents_.size(); ++to)
    if (to_all_ || host.agent->speaks_to(agents_[to].agent->self(), now_of(host))) say(index, to);
}

void Agents::say(std::size_t index, std::size_t to) {
  Host& host = agents_[index];
  if (to == index || !agents_[to].alive || cut_[index][to]) return;
  const auto delay = [&] {
    const bool late = weather_.late && !calm_ && random_.chance(0.1);
    return random_.between(1, late ? 2000 : 60) * kMillisecond;
  };
  if (random_.chance(0.01)) {  // each end learns of it when it speaks next
    see("connections made again");
    host.talk.open(to);
    if (random_.chance(0.5)) agents_[to].talk.open(index);
  }
  const std::string frame =
      host.talk.say(to, host.agent->say(agents_[to].agent->self(), now_of(host)));
  if (random_.chance(0.03)) {
    see("messages twice");
    clock_.after(delay(), [this, index, to, frame] { arrive(index, to, frame); });
  }
  clock_.after(delay(), [this, index, to, frame] { arrive(index, to, frame); });
}

void Agents::arrive(std::size_t from, std::size_t to, const std::string& frame) {
  Host& host = agents_[to];
  if (!host.alive) return;
  if (host.paused)  // it lies in the socket
    return clock_.after(300 * kMillisecond, [this, from, to, frame] { arrive(from, to, frame); });
  if (cut_[from][to] || (!calm_ && random_.chance(weather_.lost))) {
    see("messages lost");
    return;
  }
  auto heard = host.talk.hear(from, frame);
  require(heard.ok(), "an agent is not understood: " + (heard.ok() ? "" : heard.error().message));
  const auto said = *quorum::decode(frame);
  if (said.facts.as == quorum::Carried::kDifference) see("differences");
  if (said.facts.unread) see("facts said whole again");
  if (!heard->message) see("facts that cannot be read");
  if (!heard->message && weather_.blunder == Blunder::kUnread) heard->message = said.message;
  bool waits = heard->answer;
  if (heard->message) {
    heard->message->place = agents_[from].place;
    mistake(to, *heard->message);
    waits = host.agent->hear(*heard->message, now_of(host)) || waits;
  }
  serve(to);
  if (waits && host.alive) say(to, from);
}

// Mistakes in messages, and in how they are read.
void Agents::mistake(std::size_t to, Message& message) const {
  const Host& host = agents_[to];
  const quorum::Agent& agent = *host.agent;
  const bool leads = message.role == Role::kLeads;
  if (weather_.blunder == Blunder::kOwnFacts && message.role == Role::kFollows &&
      (message.vote == agent.self() || message.would))
    message.facts = agent.facts();
  if (weather_.blunder == Blunder::kArrival && leads) message.echo = now_of(host);
  if (weather_.blunder == Blunder::kNoAge && leads) message.quorum_age = 0;
  const Stamp newest = agent.facts().stamp;
  if (weather_.blunder == Blunder::kOldAnswers && message.acknowledged.term == newest.term &&
      message.acknowledged.seq + 1 == newest.seq)
    message.acknowledged = newest;
}

Course Agents::run() {
  try {
    weather();
    while (clock_.step()) {
      while (journal_.size() > 400) journal_.pop_front();
      if (clock_.now() > calm_at_ + 200 * kSecond) break;
      if (calm_ && std::ranges::none_of(agents_, &Host::alive)) break;
    }
    check_end();
  } catch (const Violation& violation) {
    course_.violation = violation.what();
    for (const std::string& line : journal_) course_.journal += line + "\n";
  }
  return std::move(course_);
}

Course run_agents(std::uint64_t seed, const Weather& weather) {
  Course course = Agents(seed, weather, false).run();
  if (!course.violation.empty()) course = Agents(seed, weather, true).run();
  return course;
}

std::string Agents::name(const Member& member) const {
  return std::string(1, static_cast<char>('A' + member.host)) +
         std::to_string(member.incarnation - 100);
}

std::string Agents::standing(const Host& host) const {
  const quorum::Agent& agent = *host.agent;
  std::string text = agent.role() == Role::kAsks    ? " asks"
                     : agent.role() == Role::kLeads ? " leads"
                                                    : " follows";
  text += ", term " + std::to_string(agent.term());
  if (agent.vote()) text += ", voted for " + name(*agent.vote());
  if (agent.leader()) text += ", obeys " + name(*agent.leader());
  return text;
}

std::string Agents::names(const std::vector<Member>& members) const {
  std::string text = "{";
  for (const Member& member : members) text += (text.size() > 1 ? " " : "") + name(member);
  return text + "}";
}

std::string Agents::text(const Facts& facts) const {
  std::string text = "(" + std::to_string(facts.stamp.term) + "," +
                     std::to_string(facts.stamp.seq) + ") " + names(facts.set.members);
  if (facts.change) text += " under way " + names(facts.change.members);
  if (facts.attempt != Stamp{})
    text +=
        " attempt " + std::to_string(facts.attempt.term) + "," + std::to_string(facts.attempt.seq);
  if (facts.final)
    text += std::string(" final ") + std::to_string(facts.final->code) +
            (facts.final->known      ? " known"
             : facts.final->in_force ? " in force"
                                     : "");
  return text;
}

}  // namespace lockstep::simulation
