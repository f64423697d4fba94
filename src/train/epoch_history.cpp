#include "train/epoch_history.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace lockstep::training {
namespace {

using Json = nlohmann::json;

constexpr const char* kName = "epoch_history";

// JSON has no word for what is not finite: a NaN, here.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }
double value_of(const Json& json) {
  return json.is_number() ? json.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

Json row(const EpochFigures& figures) {
  return Json::array({number(figures.train_loss), number(figures.loss), figures.run_seconds});
}

std::optional<EpochFigures> figures_of(const Json& row) {
  if (!row.is_array() || row.size() != 3 || !row[2].is_number()) return std::nullopt;
  return EpochFigures{value_of(row[0]), value_of(row[1]), row[2].get<double>()};
}

}  // namespace

void EpochHistory::ended_at(double run_seconds) {
  if (broken_) {
    broken_->run_seconds = run_seconds;
  } else if (!ends_.empty()) {
    ends_.back().run_seconds = run_seconds;
  }
}

std::vector<EpochFigures> EpochHistory::all() const {
  std::vector<EpochFigures> all = ends_;
  if (broken_) all.push_back(*broken_);
  return all;
}

std::string EpochHistory::save() const {
  Json ends = Json::array();
  for (const EpochFigures& figures : ends_) ends.push_back(row(figures));
  return json_text(Json{{"ends", ends}, {"broken", broken_ ? row(*broken_) : Json()}});
}

Status EpochHistory::load(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  const Error bad{ErrorKind::kBadData, "the epochs' history in the state is damaged"};
  if (!json.is_object() || !json.contains("ends") || !json["ends"].is_array()) return bad;
  ends_.clear();
  for (const Json& item : json["ends"]) {
    const auto figures = figures_of(item);
    if (!figures) return bad;
    ends_.push_back(*figures);
  }
  broken_ = figures_of(json.value("broken", Json()));
  return {};
}

TrainState::Text EpochHistory::text() {
  return {kName, [this] { return save(); }, [this](const std::string& json) { return load(json); },
          /*hashed=*/false};
}

}  // namespace lockstep::training
