// A listening socket in the loop, and who comes in by it.
//
// Ownership: the listener stays the caller's, and outlives the object, as the loop does; open()
// makes it one that does not block. Errors: kUnavailable. Threads: the loop's.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "base/deadline.h"
#include "base/loop.h"
#include "base/unique_fd.h"
#include "lockstep/status.h"

namespace lockstep {

class Door {
 public:
  // Gets each connection, which does not block.
  using Visit = std::function<void(UniqueFd)>;

  Door(int listener, Loop& loop, Visit visit)
      : listener_(listener), loop_(loop), visit_(std::move(visit)) {}
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  Status open();
  // Where no descriptor is left for whoever comes, the door rests: it would be ready all the time.
  bool rests() const { return rests_until_.has_value(); }
  // Tries it again, 50 ms after that. To be called now and then.
  void look();
  // Lets in, now, whoever has come by now.
  void let_all_in();

 private:
  void let_in(int most);
  bool accept();  // false: nobody has come, or nobody can come in

  const int listener_;
  Loop& loop_;
  const Visit visit_;
  bool open_ = false;
  std::optional<Deadline> rests_until_;
};

}  // namespace lockstep
