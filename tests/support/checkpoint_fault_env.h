// A file system in memory that fails on command and forgets what was never synced.
//
// What is durable: a file's bytes after File::sync(), a folder's names after sync_dir(). crash()
// throws the rest away, or, with a seed, keeps an arbitrary part of it, as a real disk may.
// Threads: safe.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/env.h"

namespace lockstep::testing {

class MemoryEnv final : public Env {
 public:
  // The n-th call from now on (from 1) fails with ENOSPC's words: that one only, or all from it on.
  // 0: none.
  void fail_at(std::uint64_t n, bool from_then_on) {
    const std::lock_guard lock(mutex_);
    calls_ = 0;
    fail_at_ = n;
    from_then_on_ = from_then_on;
  }
  std::uint64_t calls() const { return calls_; }

  // Power fails. Without a seed nothing unsynced survives, with one each change may or may not.
  void crash() { settle(*root_, nullptr); }
  void crash(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    settle(*root_, &random);
  }

  // A damaged disk: `change` gets the bytes of a file.
  template <class Change>
  void damage(const std::string& path, Change change) {
    change(find(path)->data);
  }

  std::uint64_t now_ns() override { return ++clock_; }
  double wall_time_s() override { return 0; }

  Result<std::unique_ptr<File>> create(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    LOCKSTEP_TRY(call("open", path));
    const auto parent = find(folder_of(path));
    if (!parent) return missing(path);
    auto& node = parent->names[name_of(path)];
    if (!node) node = std::make_shared<Node>();
    node->data.clear();
    return std::unique_ptr<File>(std::make_unique<OpenFile>(*this, node, path));
  }

  Result<std::unique_ptr<File>> open_append(const std::string& path) override {
    return Error{ErrorKind::kInternal, "not needed here: " + path};
  }

  Result<std::string> read(const std::string& path, std::uint64_t limit_bytes) override {
    const std::lock_guard lock(mutex_);
    LOCKSTEP_TRY(call("read", path));
    const auto node = find(path);
    if (!node || node->folder) return missing(path);
    if (node->data.size() > limit_bytes) return Error{ErrorKind::kBadData, path + " is too large"};
    return node->data;
  }

  Status rename(const std::string& from, const std::string& to) override {
    const std::lock_guard lock(mutex_);
    LOCKSTEP_TRY(call("rename", from));
    const auto node = find(from);
    const auto target = find(to);
    if (!node) return missing(from);
    if (target && target->folder && !target->names.empty())
      return Error{ErrorKind::kDisk, "rename: '" + to + "' is not empty"};
    find(folder_of(from))->names.erase(name_of(from));
    find(folder_of(to))->names[name_of(to)] = node;
    return {};
  }

  Status remove_all(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    LOCKSTEP_TRY(call("remove", path));
    if (const auto parent = find(folder_of(path))) parent->names.erase(name_of(path));
    return {};
  }

  Status make_dirs(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    LOCKSTEP_TRY(call("mkdir", path));
    auto node = root_;
    for (const std::string& name : split(path)) {
      auto& next = node->names[name];
      if (!next) next = std::make_shared<Node>(Node{.folder = true});
      node = next;
    }
    return {};
  }

  Status sync_dir(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    LOCKSTEP_TRY(call("fsync", path));
    const auto node = find(path);
    if (!node) return missing(path);
    node->synced_names = node->names;
    return {};
  }

  Status truncate(const std::string& path, std::uint64_t) override { return missing(path); }

  Result<std::vector<std::string>> list(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    LOCKSTEP_TRY(call("list", path));
    const auto node = find(path);
    if (!node || !node->folder) return missing(path);
    std::vector<std::string> names;
    for (const auto& [name, child] : node->names) names.push_back(name);
    return names;
  }

  bool exists(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    return find(path) != nullptr;
  }

 private:
  struct Node {
    bool folder = false;
    std::string data = {}, synced_data = {};
    std::map<std::string, std::shared_ptr<Node>> names = {}, synced_names = {};
  };
  using Names = std::map<std::string, std::shared_ptr<Node>>;

  class OpenFile final : public File {
   public:
    OpenFile(MemoryEnv& env, std::shared_ptr<Node> node, std::string path)
        : env_(env), node_(std::move(node)), path_(std::move(path)) {}
    Status append(std::span<const std::byte> bytes) override {
      const std::lock_guard lock(env_.mutex_);
      const Status called = env_.call("write", path_);
      // A write that fails may have written a part.
      const std::size_t written = called.ok() ? bytes.size() : bytes.size() / 2;
      node_->data.append(reinterpret_cast<const char*>(bytes.data()), written);
      return called;
    }
    Status sync() override {
      const std::lock_guard lock(env_.mutex_);
      LOCKSTEP_TRY(env_.call("fsync", path_));
      node_->synced_data = node_->data;
      return {};
    }
    Status close() override {
      const std::lock_guard lock(env_.mutex_);
      return env_.call("close", path_);
    }

   private:
    MemoryEnv& env_;
    std::shared_ptr<Node> node_;
    std::string path_;
  };

  static Error missing(const std::string& path) {
    return {ErrorKind::kBadData, "'" + path + "': No such file or directory"};
  }

  Status call(const char* what, const std::string& path) {
    ++calls_;
    const bool fails = fail_at_ != 0 && (from_then_on_ ? calls_ >= fail_at_ : calls_ == fail_at_);
    if (!fails) return {};
    return Error{ErrorKind::kDisk, std::string(what) + " '" + path + "': No space left on device"};
  }

  static std::vector<std::string> split(const std::string& path) {
    std::vector<std::string> names;
    for (std::size_t at = 0; at < path.size();) {
      const std::size_t end = std::min(path.find('/', at), path.size());
      if (end > at) names.push_back(path.substr(at, end - at));
      at = end + 1;
    }
    return names;
  }
  static std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
  static std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

  std::shared_ptr<Node> find(const std::string& path) {
    auto node = root_;
    for (const std::string& name : split(path)) {
      const auto found = node->names.find(name);
      if (found == node->names.end()) return nullptr;
      node = found->second;
    }
    return node;
  }

  static bool coin(std::mt19937_64* random) { return random != nullptr && (*random)() % 2 == 0; }

  // Each name is as it was synced or as it is now; likewise each file's bytes, or a part of them.
  static void settle(Node& node, std::mt19937_64* random) {
    if (!node.folder) {
      if (node.data != node.synced_data)
        coin(random) ? node.data.resize((*random)() % (node.data.size() + 1))
                     : void(node.data = node.synced_data);
      node.synced_data = node.data;
      return;
    }
    Names survived;
    for (const auto& [name, child] : node.synced_names)
      if (!node.names.contains(name) ? !coin(random) : !coin(random) || node.names[name] == child)
        survived[name] = child;
    for (const auto& [name, child] : node.names)
      if (!survived.contains(name) && coin(random)) survived[name] = child;
    node.names = node.synced_names = survived;
    for (const auto& [name, child] : node.names) settle(*child, random);
  }

  mutable std::mutex mutex_;
  std::shared_ptr<Node> root_ = std::make_shared<Node>(Node{.folder = true});
  std::uint64_t calls_ = 0, fail_at_ = 0, clock_ = 0;
  bool from_then_on_ = false;
};

}  // namespace lockstep::testing
