#include "rundir/redone.h"

#include <array>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "rundir/record_file.h"

namespace lockstep::rundir {
namespace {

using Line = nlohmann::json;

constexpr std::string_view kBefore = ",\"before\":";

// nullopt: not a record.
std::optional<std::uint64_t> txn_of(std::string_view line) {
  return take_number<std::uint64_t>(line, kRecordStart);
}

bool has_text(const Line& line, const char* key, const char* text = nullptr) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string() && (text == nullptr || *found == text);
}

// Of an update, of a run whose steps come out the same again.
bool is_compared(const Line& line) {
  return line.is_object() && has_text(line, "loss_hex") && !has_text(line, "redone", "off");
}

std::string_view first_line(std::string_view lines) {
  const auto end = lines.find('\n');
  return end == lines.npos ? lines : lines.substr(0, end + 1);
}

std::string figure(const Line& value) { return value.is_null() ? "not finite" : json_text(value); }

std::string loss_in(const Line& line) {
  std::string hex = line["loss_hex"].get<std::string>();  // nan, inf: they have no number
  const auto loss = line.find("loss");
  if (loss == line.end() || !loss->is_number()) return hex;
  return shortest(loss->get<double>()) + " (" + hex + ")";
}

// Empty: both have it, and it is the same, or one of them has not.
std::string difference_in(const Line& now, const Line& then, const std::string& key,
                          const std::string& name) {
  const auto a = now.find(key), b = then.find(key);
  if (a == now.end() || b == then.end() || *a == *b) return "";
  return name + " is " + figure(*a) + ", it was " + figure(*b);
}

// The first figure that differs, with both values; empty: none.
std::string difference_of(const Line& now, const Line& then) {
  // What explains the others comes first.
  if (!difference_in(now, then, "state_xxh3", "").empty())
    return "its train state is another one at the step's start";
  if (now["loss_hex"] != then["loss_hex"])
    return "its loss is " + loss_in(now) + ", it was " + loss_in(then);
  for (const auto& [key, name] : std::array<std::pair<const char*, const char*>, 2>{
           {{"loss_mean", "its mean loss over all shares"}, {"grad_norm", "its gradients' norm"}}})
    if (std::string text = difference_in(now, then, key, name); !text.empty()) return text;
  const auto ends = [](const Line& line) { return line.value("ends", Line(false)) == true; };
  if (ends(now) != ends(then))
    return ends(now) ? "it ends the run, it did not" : "it does not end the run, it did";
  const auto sums = now.find("sums"), before = then.find("sums");
  if (sums == now.end() || before == then.end() || !sums->is_object() || !before->is_object())
    return "";
  for (const auto& [key, sum] : sums->items())
    if (std::string text = difference_in(*sums, *before, key, "its sum and count of '" + key + "'");
        !text.empty())
      return text;
  return "";
}

// A line's own record, and the one that it was compared with and differed from.
struct Record {
  std::string own, before;
};

Record record_in(std::string_view line) {
  const std::string_view text = line.substr(0, line.rfind('}'));
  const auto at = text.find(kBefore);
  if (at == text.npos) return {std::string(text) + "}", ""};
  return {std::string(text.substr(0, at)) + "}", std::string(text.substr(at + kBefore.size()))};
}

std::string place_in(const Line& line) {
  std::string place = "step " + json_text(line.value("step", Line(0)));
  if (const auto update = line.find("update"); update != line.end())
    place += ", update " + json_text(*update);
  return place;
}

// Of one transaction; nullopt: there is none that is told.
std::optional<Redone::Difference> compare_lines(std::string_view now, std::string_view then) {
  const Record record = record_in(then);
  const Line a = Line::parse(now, nullptr, false), b = Line::parse(record.own, nullptr, false);
  if (!is_compared(a) || !is_compared(b)) return std::nullopt;
  std::string text = difference_of(a, b);
  const bool is_new = !text.empty();
  const Line earlier = Line::parse(record.before, nullptr, false);
  if (!is_new && is_compared(earlier)) text = difference_of(a, earlier);
  if (text.empty()) return std::nullopt;
  const std::string& before = is_new ? record.own : record.before;
  return Redone::Difference{
      place_in(a) + " came out otherwise as it was done again: " + text,
      std::string(now.substr(0, now.rfind('}'))) + std::string(kBefore) + before + "}\n",
      is_new && !has_text(a, "redone", "warn")};
}

}  // namespace

std::string_view Redone::front() const { return first_line(std::string_view(before_).substr(at_)); }

std::optional<Redone::Difference> Redone::compare(std::string_view lines) {
  std::string_view now;
  for (std::size_t at = 0; at < lines.size() && !over(); at += now.size()) {
    now = first_line(lines.substr(at));
    const auto txn = txn_of(now);
    while (!over() && txn_of(front()) < txn) at_ += front().size();
    if (over() || txn_of(front()) != txn) continue;
    const std::string_view then = front();
    at_ += then.size();
    auto difference = now == then ? std::nullopt : compare_lines(now, then);
    if (!difference) continue;
    difference->lines = std::string(lines.substr(0, at)) + difference->lines +
                        std::string(lines.substr(at + now.size()));
    end();
    return difference;
  }
  if (over()) end();
  return std::nullopt;
}

}  // namespace lockstep::rundir
