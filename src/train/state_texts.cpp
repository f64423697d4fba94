#include "train/state_texts.h"

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace lockstep::training {
namespace {

using nlohmann::json;

// No text of a state has such a name.
constexpr const char* kEndedEarly = "lockstep:ended_early";
constexpr const char* kRan = "lockstep:ran_ns";
constexpr const char* kStopped = "lockstep:stopped";

}  // namespace

std::string texts_json(const TrainState& state, const RunNotes& notes) {
  json texts = json::object();
  for (const TrainState::Text& text : state.texts()) texts[text.name] = text.save();
  if (notes.ended_early) texts[kEndedEarly] = "yes";
  texts[kRan] = std::to_string(notes.ran_ns);
  if (notes.stopped) texts[kStopped] = "yes";
  return texts.dump();
}

Result<RunNotes> load_texts(const TrainState& state, const std::string& text) {
  json texts = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!texts.is_object()) texts = json::object();
  for (const TrainState::Text& wanted : state.texts()) {
    const auto found = texts.find(wanted.name);
    if (found == texts.end() || !found->is_string())
      return Error{ErrorKind::kBadData,
                   "the checkpoint has no '" + wanted.name + "', which this run's state needs"};
    LOCKSTEP_TRY(wanted.load(found->get<std::string>()));
  }
  RunNotes notes;
  notes.ended_early = texts.contains(kEndedEarly);
  notes.stopped = texts.contains(kStopped);
  if (const auto ran = texts.find(kRan); ran != texts.end() && ran->is_string())
    notes.ran_ns = number_of<std::uint64_t>(ran->get<std::string>()).value_or(0);
  return notes;
}

}  // namespace lockstep::training
