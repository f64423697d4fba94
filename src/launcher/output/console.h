// Standard output and error of the launcher. Never blocks the agent, whoever else writes into the
// same terminal or pipe: what it does not take now is kept, up to a limit; what is lost beyond it
// is told once there is room again; a standard output that takes nothing any more (a full disk, a
// reader that has gone) is told on standard error, once. Files are written beside the loop
// (file_writer.h), and waited for at the end, however slow their disk is.
//
// Threads: the loop's.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/deadline.h"
#include "base/loop.h"
#include "base/unique_fd.h"
#include "launcher/background.h"
#include "launcher/output/file_writer.h"

namespace lockstep::launcher {

class Console {
 public:
  enum Target { kOut = 0, kErr = 1 };
  // The loop writes on as soon as there is room; it must outlive the object.
  explicit Console(Loop& loop);
  // Files get what is still waiting, for a second at most, also what finish() counted as missing.
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // These take the place of standard output and error; what has not been written yet goes there.
  void move_to(int out, int err);

  // Whole lines: those of several workers never tear each other.
  void write(Target target, std::string_view lines);
  // Where standard error is a terminal: its columns, less the one in which it would wrap; else 0.
  std::size_t columns() const;
  // A line there that stays the last one: others are written above it. In the former one's place;
  // empty: it goes. Dropped while the terminal takes nothing.
  void bar(const std::string& text);
  // True: nothing is left to write.
  bool flush();
  // Until the files have all that was written, for a second at most: before a process ends whose
  // starter then reads them.
  void settle();
  // What was never written.
  struct Missing {
    std::size_t lines = 0, bytes = 0;
    bool any() const { return lines + bytes != 0; }
  };
  // Writes until nothing is left, however slow the readers are. Drops the rest once nobody has
  // taken a byte for `patience`, or when `enough`, asked ten times a second, says so.
  Missing finish(std::chrono::milliseconds patience, const std::function<bool()>& enough);
  // The same until it is no longer full; false: nobody reads.
  bool make_room(std::chrono::milliseconds patience, const std::function<bool()>& enough);
  // Something waits for room, and the loop cannot tell when there is some: flush() now and then.
  bool waits_unwatched() const;
  // Whether somebody reads there, and there is room: now and then. Workers may be the only ones who
  // write.
  void look();
  // As of the last look. False: nobody takes what is in the pipe or terminal, and whoever writes
  // there would wait.
  bool has_room(Target target) const { return of(target).has_room; }
  // Changes whenever a reader takes something, or something is written.
  std::pair<std::size_t, int> progress(Target target) const { return of(target).progress(); }
  // Too much is waiting: whoever feeds us from a pipe should pause.
  bool full() const { return waiting() > kLimit; }

 private:
  static constexpr std::size_t kLimit = std::size_t{1} << 20;
  // Of one target, before the lines that come now.
  static constexpr std::size_t kMostWaiting = 4 * kLimit;
  struct Stream {
    int fd = -1;
    // A pipe's or terminal's, opened anew without blocking: O_NONBLOCK on `fd` itself would be the
    // user's shell's and the workers' too. Empty for what cannot be opened so.
    UniqueFd own;
    std::shared_ptr<FileWriter> file;  // of a file
    bool is_pipe = false, is_socket = false, is_terminal = false, watched = false;
    bool has_room = true;
    bool broken = false;  // it was told that nothing can be written
    std::string waiting;
    std::size_t lost = 0, lost_bytes = 0;  // lines

    std::size_t left() const { return waiting.size() + (file ? file->waiting() : 0); }
    int number() const { return own ? own.get() : fd; }
    std::string_view next_piece(std::size_t from) const;
    ssize_t put(std::string_view piece) const;  // as write(2), EAGAIN where there is no room
    // Changes whenever something is taken: by the pipe from us, or by its reader.
    std::pair<std::size_t, int> progress() const;
  };
  Stream open(Target target);
  const Stream& of(Target target) const { return streams_[one_ ? kOut : target]; }
  Stream& of(Target target) { return streams_[one_ ? kOut : target]; }
  std::size_t waiting() const { return streams_[0].left() + streams_[1].left(); }
  bool disk_is_busy() const;
  bool write_down_to(std::size_t most, std::chrono::milliseconds patience,
                     const std::function<bool()>& enough);
  bool flush(Stream& stream);
  void tell_lost(Stream& stream);
  bool flush_file(Stream& stream);
  void tell_broken(Stream& stream, const std::string& what);
  void tell_late(Stream& stream);
  void watch(Stream& stream);

  Loop& loop_;
  Background disk_;
  std::array<Stream, 2> streams_;
  // One pipe, terminal, socket or open file for both (2>&1): all goes through the first, line after
  // line.
  bool one_ = false;
  std::string bar_;  // as it stands on the terminal
};

}  // namespace lockstep::launcher
