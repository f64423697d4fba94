#include "base/control_groups.h"

#include <algorithm>
#include <optional>

#include "base/text.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kMostBytes = 1 << 20;

std::string text_of(Env& env, const std::string& path) {
  auto text = env.read(path, kMostBytes);
  return text.ok() ? *std::move(text) : std::string();
}

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Of mountinfo: a space, a tab, a line end and a backslash are there as "\\040" and so on.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto is_octal = [&](std::size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '7';
    };
    if (text[i] == '\\' && is_octal(i + 1) && is_octal(i + 2) && is_octal(i + 3)) {
      out +=
          static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + text[i + 3] - '0');
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// The group's path: v2 has "0::PATH", v1 "N:CONTROLLERS:PATH"; a path may have a colon.
std::optional<std::string> path_in(const std::vector<std::string>& groups, bool v2,
                                   std::string_view controller) {
  for (const std::string& line : groups) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (v2 ? line.starts_with("0::") : has(split(controllers, ','), controller))
      return line.substr(second + 1);
  }
  return std::nullopt;
}

// Below a mount that shows the group `root`: a container may see its own group there, and be told
// its whole path. One that is outside of what is mounted: the mount itself.
std::string below(std::string path, const std::string& root) {
  if (path == "/.." || path.starts_with("/../")) return {};
  if (root != "/" && (path == root || path.starts_with(root + "/"))) path.erase(0, root.size());
  while (path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

// 31 23 0:28 ROOT MOUNT OPTIONS [more...] - TYPE SOURCE SUPER_OPTIONS
bool ControlGroups::parse(const std::string& line, Hierarchy& hierarchy) {
  const auto fields = split(line, ' ');
  const auto dash = std::ranges::find(fields, "-");
  if (dash - fields.begin() < 6 || fields.end() - dash < 4) return false;
  const std::string& type = dash[1];
  if (type != "cgroup2" && type != "cgroup") return false;
  hierarchy = {type == "cgroup2", unescaped(fields[4]), unescaped(fields[3]), split(dash[3], ',')};
  return true;
}

ControlGroups::ControlGroups(Env& env) : env_(env) {
  Hierarchy hierarchy;
  for (const std::string& line : split(text_of(env, "/proc/self/mountinfo"), '\n'))
    if (parse(line, hierarchy)) hierarchies_.push_back(std::move(hierarchy));
}

std::vector<ControlGroup> ControlGroups::of(std::string_view process,
                                            std::string_view controller) const {
  std::vector<ControlGroup> found;
  const auto groups = split(text_of(env_, "/proc/" + std::string(process) + "/cgroup"), '\n');
  for (const Hierarchy& hierarchy : hierarchies_) {
    if (!hierarchy.v2 && !has(hierarchy.controllers, controller)) continue;
    if (auto path = path_in(groups, hierarchy.v2, controller))
      found.push_back({hierarchy.v2, hierarchy.mount,
                       hierarchy.mount + below(*std::move(path), hierarchy.root)});
  }
  return found;
}

std::string ControlGroups::read(const ControlGroup& group, std::string_view name) const {
  return text_of(env_, group.folder + "/" + std::string(name));
}

}  // namespace lockstep
