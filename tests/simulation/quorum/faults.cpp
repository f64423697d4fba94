// What happens to agents and to the network between them.
#include <algorithm>

#include "agents.h"

namespace lockstep::simulation {

void Agents::weather() {
  const std::uint64_t until = weather_.seconds * kSecond;
  const auto some_time = [&] { return random_.between(kSecond / 5, until); };
  calm_at_ = clock_.now() + until;
  if (weather_.ends > 0) clock_.after(some_time(), [this] { ending_ = true; });
  for (int i = 0; i < weather_.cuts; ++i) clock_.after(some_time(), [this] { next_weather(); });
  for (int i = 0; i < weather_.crashes; ++i) clock_.after(some_time(), [this] { crash(); });
  for (int i = 0; i < weather_.pauses; ++i) clock_.after(some_time(), [this] { pause(); });
  for (std::size_t c = 0; c < weather_.comers; ++c) {
    const auto host = static_cast<std::uint16_t>(weather_.hosts + c);
    clock_.after(some_time(), [this, host] { come(host, false); });
  }
  if (weather_.twice) {
    const bool early = random_.chance(0.5);  // while the first set is made
    const auto host =
        static_cast<std::uint16_t>(early ? 0 : random_.between(0, weather_.hosts - 1));
    clock_.after(early ? random_.between(0, kSecond) : some_time(),
                 [this, host] { come(host, true); });
  }
  clock_.after(until, [this] { calm(); });
}

// Until the next: all is well; halves; each way by itself; one alone; one pair.
void Agents::next_weather() {
  if (calm_) return;
  const std::uint64_t kind = weather_.halves ? random_.between(0, 2) : random_.between(0, 6);
  const std::size_t n = agents_.size();
  const std::size_t one = random_.between(0, n - 1), other = random_.between(0, n - 1);
  const std::uint64_t half = random_.between(0, (std::uint64_t{1} << n) - 1);
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < n; ++b) {
      const bool across = (half >> a & 1) != (half >> b & 1);
      cut_[a][b] = kind == 1   ? across
                   : kind == 2 ? (half >> a & 1) && !(half >> b & 1)
                   : kind == 3 ? random_.chance(0.3)
                   : kind == 4 ? a == one || b == one
                   : kind == 5 ? b == one
                   : kind == 6 ? (a == one && b == other) || (b == one && a == other)
                               : false;
    }
  constexpr const char* kKinds[] = {"all is well",    "halves",         "halves, one way",
                                    "cuts, each way", "one is cut off", "one is deaf",
                                    "one pair is cut"};
  see(kKinds[kind]);
  note([&] {
    std::string text = std::string("NETWORK ") + kKinds[kind] + ":";
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = 0; b < n; ++b)
        if (cut_[a][b] && a != b) text += " " + std::to_string(a) + ">" + std::to_string(b);
    return text;
  });
}

void Agents::crash() {
  const std::size_t index = random_.between(0, agents_.size() - 1);
  Host& host = agents_[index];
  if (calm_ || !host.alive) return;
  see("crashes");
  note([&] { return "FAULT " + name(host.agent->self()) + " dies"; });
  host.alive = false;
  host.workers = {};
  const Member dead = host.agent->self();
  if (random_.chance(0.5))
    for (Host& other : agents_) {
      if (!other.alive || other.paused || !random_.chance(0.7)) continue;
      other.agent->refused(dead, now_of(other));
      see("ports refused");
    }
  if (weather_.returns == 0 || random_.chance(0.3)) return;
  --weather_.returns;
  clock_.after(random_.between(500, 6000) * kMillisecond, [this, dead] { come(dead.host, false); });
}

void Agents::pause() {
  const std::size_t index = random_.between(0, agents_.size() - 1);
  Host& host = agents_[index];
  if (calm_ || !host.alive || host.paused) return;
  const bool stands_still = random_.chance(0.3);
  see(stands_still ? "pauses of the clock" : "pauses");
  note([&] { return "FAULT " + name(host.agent->self()) + " is paused"; });
  host.paused = true;
  const std::uint64_t begin = clock_.now();
  clock_.after(random_.between(500, 9000) * kMillisecond, [this, index, begin, stands_still] {
    Host& again = agents_[index];
    if (!again.paused) return;
    if (stands_still)
      again.ahead -= std::min(again.ahead, (clock_.now() - begin) * again.rate / 100);
    wake(index, stands_still);
  });
}

void Agents::wake(std::size_t index, bool stood_still) {
  Host& host = agents_[index];
  host.paused = false;
  host.woke = clock_.now();
  host.asks_file = false;
  host.carrying_out = {};
  if (stood_still) host.stood_still_until = clock_.now() + 2 * settings_.silence;
  if (!host.alive) return;
  note([&] { return name(host.agent->self()) + " wakes"; });
  beat(index, ++host.beats);
}

void Agents::come(std::uint16_t host, bool twice) {
  see(twice ? "places claimed twice" : host < weather_.hosts ? "returns" : "comers");
  const bool same_place = host < weather_.hosts && !twice;
  add(host, same_place ? host + 1U : 50U + agents_.size());
}

void Agents::calm() {
  calm_ = true;
  note([] { return std::string("from here on there are no faults"); });
  for (auto& row : cut_) std::ranges::fill(row, 0);
  for (std::size_t i = 0; i < agents_.size(); ++i)
    if (agents_[i].paused) wake(i, false);
  clock_.after(2500 * kMillisecond, [this] { expect(); });
}

}  // namespace lockstep::simulation
