#include "train/state_texts.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <vector>

#include "base/json.h"
#include "base/text.h"

namespace lockstep::training {
namespace {

using nlohmann::json;

// No text of a state has such a name.
constexpr const char* kEndedEarly = "lockstep:ended_early";
constexpr const char* kRan = "lockstep:ran_ns";
constexpr const char* kStopped = "lockstep:stopped";
constexpr const char* kIdleSteps = "lockstep:idle_steps";
constexpr const char* kWorkers = "lockstep:workers";
constexpr const char* kOptimizers = "lockstep:next_optimizers";
constexpr const char* kOptimizer = "lockstep:next_optimizer";  // of checkpoints before 0.10

std::optional<std::uint64_t> number_in(const json& texts, const char* name) {
  const auto found = texts.find(name);
  if (found == texts.end() || !found->is_string()) return std::nullopt;
  return number_of<std::uint64_t>(found->get<std::string>());
}

// "0,2;1": of two updates.
std::string optimizers_text(const std::vector<std::vector<std::size_t>>& updates) {
  std::string text;
  for (const auto& optimizers : updates) {
    if (!text.empty()) text += ';';
    for (std::size_t i = 0; i < optimizers.size(); ++i)
      text += (i == 0 ? "" : ",") + std::to_string(optimizers[i]);
  }
  return text;
}

// Empty: none, or no such text.
std::vector<std::vector<std::size_t>> optimizers_in(const json& texts) {
  if (const auto one = number_in(texts, kOptimizer)) return {{*one}};
  const auto found = texts.find(kOptimizers);
  if (found == texts.end() || !found->is_string()) return {};
  std::vector<std::vector<std::size_t>> updates;
  std::istringstream text(found->get<std::string>());
  for (std::string update; std::getline(text, update, ';');) {
    std::istringstream numbers(update);
    auto& optimizers = updates.emplace_back();
    for (std::string number; std::getline(numbers, number, ',');) {
      const auto parsed = number_of<std::size_t>(number);
      if (!parsed) return {};
      optimizers.push_back(*parsed);
    }
  }
  return updates;
}

// A program's text may be any bytes, and comes back as it was: as numbers where it is not UTF-8.
json kept(const std::string& text) {
  if (printable(text) == text) return text;
  return std::vector<std::uint8_t>(text.begin(), text.end());
}

std::optional<std::string> text_of(const json& kept) {
  if (kept.is_string()) return kept.get<std::string>();
  const auto is_byte = [](const json& n) { return n.is_number_unsigned() && n <= 255; };
  if (!kept.is_array() || !std::ranges::all_of(kept, is_byte)) return std::nullopt;
  std::string text;
  for (const json& byte : kept) text += static_cast<char>(byte.get<std::uint8_t>());
  return text;
}

}  // namespace

std::vector<std::string> save_texts(const TrainState& state) {
  std::vector<std::string> saved;
  for (const TrainState::Text& text : state.texts()) saved.push_back(text.save());
  return saved;
}

std::string texts_json(const TrainState& state, const std::vector<std::string>& saved,
                       const RunNotes& notes) {
  json texts = json::object();
  for (std::size_t i = 0; i < saved.size(); ++i)
    if (!state.texts()[i].optional || !saved[i].empty())
      texts[printable(state.texts()[i].name)] = kept(saved[i]);
  if (notes.ended_early) texts[kEndedEarly] = "yes";
  texts[kRan] = std::to_string(notes.ran_ns);
  if (notes.stopped) texts[kStopped] = "yes";
  if (notes.idle_steps > 0) texts[kIdleSteps] = std::to_string(notes.idle_steps);
  if (notes.workers > 0) texts[kWorkers] = std::to_string(notes.workers);
  if (!notes.optimizers.empty()) texts[kOptimizers] = optimizers_text(notes.optimizers);
  return json_text(texts);
}

Result<RunNotes> load_texts(const TrainState& state, const std::string& text) {
  json texts = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!texts.is_object()) texts = json::object();
  for (const TrainState::Text& wanted : state.texts()) {
    const auto found = texts.find(printable(wanted.name));
    auto content = found == texts.end() ? std::nullopt : text_of(*found);
    if (found == texts.end() && wanted.optional) content = "";
    if (!content)
      return Error{ErrorKind::kBadData,
                   "the checkpoint has no '" + wanted.name + "', which this run's state needs"};
    LOCKSTEP_TRY(wanted.load(*content));
  }
  RunNotes notes;
  notes.ended_early = texts.contains(kEndedEarly);
  notes.stopped = texts.contains(kStopped);
  notes.ran_ns = number_in(texts, kRan).value_or(0);
  notes.idle_steps = number_in(texts, kIdleSteps).value_or(0);
  notes.workers = static_cast<int>(number_in(texts, kWorkers).value_or(0));
  notes.optimizers = optimizers_in(texts);
  return notes;
}

}  // namespace lockstep::training
