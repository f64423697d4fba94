// `lockstep checkpoint ls`.
#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>

#include "checkpoint/search.h"
#include "checkpoint/store.h"
#include "inspect/arguments.h"
#include "inspect/checkpoint/bundle.h"
#include "inspect/checkpoint/json.h"
#include "inspect/checkpoint/verbs.h"
#include "inspect/text.h"
#include "rundir/names.h"

namespace lockstep::inspect {
namespace {

namespace fs = std::filesystem;

struct Row {
  std::string path, name;
  std::optional<RunCursor> cursor;
  std::uint64_t bytes = 0;
  double age_s = 0;
  std::vector<std::string> pointers;  // last, best
  std::string trouble;                // empty: whole
};

// All files, listed in the manifest or not.
std::uint64_t bytes_in(const std::string& folder) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    const std::uintmax_t size = entry->file_size(gone);
    if (!gone) bytes += size;
  }
  return bytes;
}

double age_of(Env& env, const std::string& path) {
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  if (error) return 0;
  const auto since_1970 = fs::file_time_type::clock::to_sys(written).time_since_epoch();
  return env.wall_time_s() - std::chrono::duration<double>(since_1970).count();
}

Row row_of(Env& env, const std::string& path) {
  Row row{path, fs::path(path).filename().string(), {}, bytes_in(path), age_of(env, path), {}, ""};
  const auto manifest = checkpoint::read_manifest(env, path);
  if (manifest.ok()) row.cursor = manifest->cursor;
  const auto found = checkpoint::load_checkpoint_at(env, path, {}, {});
  if (!found.ok())
    row.trouble = found.error().message;
  else if (const auto step = rundir::step_of(row.name); step && *step != found->manifest.cursor.txn)
    row.trouble = "its manifest says step " + std::to_string(found->manifest.cursor.txn);
  return row;
}

void add_pointers(Env& env, const std::string& folder, std::vector<Row>& rows) {
  constexpr std::uint64_t kMostBytes = 256;
  for (const char* pointer : {"last", "best"}) {
    const auto target = env.read(folder + "/" + pointer, kMostBytes);
    if (!target.ok()) continue;
    const std::string name = target->substr(0, target->find('\n'));
    for (Row& row : rows)
      if (row.name == name) row.pointers.emplace_back(pointer);
  }
}

Result<std::vector<Row>> rows_of(Env& env, const std::string& path) {
  if (is_checkpoint_folder(env, path)) return std::vector{row_of(env, path)};
  if (!is_run_directory(env, path)) return not_a_bundle(env, path);
  const std::string folder = checkpoint::checkpoints_dir(path);
  LOCKSTEP_ASSIGN(const auto steps, checkpoint::list_steps(env, path));
  std::vector<Row> rows;
  rows.reserve(steps.size());
  for (const std::uint64_t step : steps)
    rows.push_back(row_of(env, folder + "/" + rundir::step_name(step)));
  add_pointers(env, folder, rows);
  return rows;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string json_of(const std::string& path, const std::vector<Row>& rows) {
  Json list = Json::array();
  for (const Row& row : rows) {
    Json each{{"path", row.path}, {"bytes", row.bytes}, {"age_s", row.age_s}};
    if (row.cursor) each["cursor"] = cursor_json(*row.cursor);
    each["pointers"] = row.pointers;
    each["valid"] = row.trouble.empty();
    if (!row.trouble.empty()) each["reason"] = row.trouble;
    list.push_back(std::move(each));
  }
  const Json json{{"directory", path}, {"checkpoints", std::move(list)}};
  return json_lines(json);
}

std::string text_of(const std::string& path, const std::vector<Row>& rows) {
  if (rows.empty()) return "no checkpoint in '" + path + "' yet\n";
  std::vector<std::vector<std::string>> cells{
      {"checkpoint", "goes on at", "size", "age", "pointers", "state"}};
  for (const Row& row : rows) {
    const std::string next = !row.cursor ? "-"
                                         : "epoch " + std::to_string(row.cursor->epoch) +
                                               ", step " + std::to_string(row.cursor->step);
    cells.push_back({row.name, next, bytes_text(row.bytes), age_text(row.age_s),
                     row.pointers.empty() ? "-" : joined(row.pointers),
                     row.trouble.empty() ? "whole" : row.trouble});
  }
  return text_table(cells, std::array<std::size_t, 2>{2, 3});
}

}  // namespace

Result<Answer> list_checkpoints(Env& env, Words words) {
  const Syntax syntax{"lockstep checkpoint ls DIR [--json]", {"--json"}, {}, 1, 1};
  LOCKSTEP_ASSIGN(const Arguments arguments, parse(words, syntax));
  const std::string& path = arguments.paths.front();
  LOCKSTEP_ASSIGN(const auto rows, rows_of(env, path));
  const bool damaged =
      std::ranges::any_of(rows, [](const Row& row) { return !row.trouble.empty(); });
  return Answer{arguments.has("--json") ? json_of(path, rows) : text_of(path, rows),
                damaged ? exit_code(ErrorKind::kBadData) : 0};
}

}  // namespace lockstep::inspect
