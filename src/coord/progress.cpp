#include "coord/progress.h"

#include <algorithm>
#include <limits>

#include "base/errors.h"
#include "base/terminal.h"
#include "base/text.h"

namespace lockstep::coord {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t ns(std::chrono::nanoseconds time) {
  return static_cast<std::uint64_t>(time.count());
}
constexpr auto kWindow = 30s;  // of a rate
constexpr auto kGap = 500ms;   // between its points
constexpr auto kBarPause = 100ms;
constexpr std::size_t kBarWidth = 20;

std::string counted(std::size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string clock(double seconds) {
  const auto whole = static_cast<std::uint64_t>(seconds);
  const auto two = [](std::uint64_t number) {
    return (number < 10 ? ":0" : ":") + std::to_string(number);
  };
  return std::to_string(whole / 3600) + two(whole / 60 % 60) + two(whole % 60);
}

}  // namespace

Result<ProgressMode> progress_mode(const std::string& name, const std::string& text) {
  if (text == "auto") return ProgressMode{};
  if (text == "off") return ProgressMode{.tells = false};
  const auto seconds = number_of<int>(text);
  if (!seconds || *seconds < 1 || *seconds > 86'400)
    return misuse(name + " takes auto, off, or whole seconds from 1 to 86400, not '" + text + "'");
  return ProgressMode{
      .bar = false, .pause = std::chrono::seconds(*seconds), .after_silence = false};
}

RunView view_of(const Recorder::Recorded& recorded, const Header& header, std::uint64_t now) {
  RunView view;
  view.steps = recorded.steps;
  view.samples = recorded.samples;
  view.loss = recorded.loss;
  view.ran_ns = ran_ns(header, now);
  return view;
}

void Progress::see(const RunView& view, std::uint64_t now) {
  if (!due(now)) return;
  const std::size_t columns = mode_.bar ? sink_.columns() : 0;
  next_ = now + ns(columns > 0 ? kBarPause : 1s);
  remember(view, now);
  if (columns > 0) {
    has_bar_ = true;
    return sink_.bar(bar(columns));
  }
  if (pause_since_ == 0) pause_since_ = now;  // the first look
  if (now < pause_since_ + ns(mode_.pause)) return;
  pause_since_ = now;
  sink_.line(text());
}

void Progress::printed(std::uint64_t now) {
  if (mode_.after_silence) pause_since_ = now;
  next_ = std::max(next_, now + ns(kBarPause));
}

void Progress::end() {
  if (std::exchange(has_bar_, false)) sink_.bar("");
}

// A group that has started again goes back.
void Progress::remember(const RunView& view, std::uint64_t now) {
  if (view.steps < view_.steps || view.samples < view_.samples) points_.clear();
  view_ = view;
  if (points_.empty() || now - points_.back().time >= ns(kGap))
    points_.push_back({now, view.steps, view.samples});
  while (points_.size() > 2 && now - points_.front().time > ns(kWindow)) points_.pop_front();
}

double Progress::per_second(std::uint64_t Point::*what) const {
  if (points_.size() < 2) return 0;
  const Point &first = points_.front(), &last = points_.back();
  return static_cast<double>(last.*what - first.*what) * 1e9 /
         static_cast<double>(last.time - first.time);
}

Progress::Part Progress::done() const {
  const Part steps{view_.steps, view_.total_steps}, time{view_.ran_ns, view_.limit_ns};
  const auto ratio = [](const Part& part) {
    return part.all == 0 ? -1 : static_cast<double>(part.some) / static_cast<double>(part.all);
  };
  return ratio(time) > ratio(steps) ? time : steps;
}

double Progress::seconds_left() const {
  double left = std::numeric_limits<double>::infinity();
  if (view_.limit_ns > 0)
    left = view_.ran_ns < view_.limit_ns ? static_cast<double>(view_.limit_ns - view_.ran_ns) * 1e-9
                                         : 0;
  const double rate = per_second(&Point::steps);
  if (view_.total_steps >= view_.steps && view_.total_steps > 0 && rate > 0)
    left = std::min(left, static_cast<double>(view_.total_steps - view_.steps) / rate);
  return left;
}

std::string Progress::text() const {
  std::string text = "step " + std::to_string(view_.steps);
  if (view_.total_steps > 0) text += "/" + std::to_string(view_.total_steps);
  if (const double rate = per_second(&Point::samples); rate > 0)
    text += "  " + with_decimals(rate, rate < 100 ? 1 : 0) + " samples/s";
  if (const double left = seconds_left(); std::isfinite(left)) text += "  ETA " + clock(left);
  if (view_.steps > 0) text += "  loss " + with_decimals(view_.loss, 4);
  text += "  " + counted(view_.workers, "worker");
  if (view_.incidents > 0) text += "  " + counted(view_.incidents, "incident");
  return text;
}

std::string Progress::bar(std::size_t columns) const {
  const Part part = done();
  const std::string line = part.all == 0 ? "" : progress_bar(part.some, part.all, kBarWidth);
  return (line + text()).substr(0, columns);
}

}  // namespace lockstep::coord
