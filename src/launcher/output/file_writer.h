// A file that the launcher appends to, on a thread beside the loop's: a disk that stands still
// delays the file alone.
//
// Ownership: `disk` must outlive the object; of one that is let go of while it is busy() what is
// waiting is lost. Threads: the loop's. Errors: `took` gets them, kDisk with the system's words.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "launcher/background.h"

namespace lockstep::launcher {

class FileWriter : public std::enable_shared_from_this<FileWriter> {
 public:
  using Took = std::function<void(const Status&)>;
  // `took` is called from the loop, or from disk.finish(), with what became of all that was written
  // so far, or of the first part of it.
  FileWriter(UniqueFd file, Background& disk, Took took);

  void write(std::string_view data);
  // What the disk has not taken yet; bytes.
  std::size_t waiting() const { return waiting_.size() + in_flight_; }
  bool busy() const { return in_flight_ != 0; }
  // So much that whoever feeds it should pause.
  bool full() const { return waiting() > kLimit; }
  // Now and then. True, once each time that the disk takes nothing for 5 s: it is to be told.
  bool is_late();

 private:
  static constexpr std::size_t kLimit = std::size_t{1} << 20;
  void begin();

  const UniqueFd file_;
  Background& disk_;
  const Took took_;
  std::string waiting_;
  std::size_t in_flight_ = 0;  // bytes
  Deadline late_ = Deadline::in({});
  bool told_late_ = false;
};

}  // namespace lockstep::launcher
