// One attempt to reach the link of another host: connection, both hellos, and a load each way
// (hello.h). While nothing is heard another connection is begun every 250 ms, beside those that are
// under way: the kernel asks again after a second, and then later and later, though a cut is over.
//
// Ownership: destroying it gives up; `loop` and `timers` must outlive it. Threads: the loop's.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop.h"
#include "base/unique_fd.h"
#include "control/timers.h"
#include "links/pair.h"
#include "links/tcp/hello.h"

namespace lockstep::links {

class Dial {
 public:
  // `from`: this end's address, any port. `patience`: until the other's hello; for its load there
  // is half of that, and 2 s at most. `done`: called once, from the loop; it may destroy the Dial.
  static std::unique_ptr<Dial> start(Loop& loop, control::Timers& timers,
                                     const std::optional<control::Address>& from, const Party& self,
                                     const Other& other, Packets packets,
                                     std::chrono::milliseconds patience, Dialled done);
  ~Dial();
  Dial(const Dial&) = delete;
  Dial& operator=(const Dial&) = delete;

 private:
  Dial(Loop& loop, control::Timers& timers, const std::optional<control::Address>& from,
       const Party& self, const Other& other, Packets packets, std::chrono::milliseconds patience,
       Dialled done);
  void connect();
  int begin();
  void on_connected(int socket);
  void drop_tries();
  void hear();
  void send_load();
  void hear_load();
  std::string what_is_lost() const;
  std::string_view answered() const;  // the other end's hello
  std::string why_not_heard() const;
  void finish(Cause cause, const std::string& what);
  void fail_of(int error);

  Loop& loop_;
  control::Timers& timers_;
  const std::optional<control::Address> from_;
  const Party self_;
  const Other other_;
  const Packets packets_;
  Dialled done_;
  const std::chrono::milliseconds pause_, patience_for_load_;
  std::vector<UniqueFd> tries_;  // under way
  UniqueFd socket_;              // the first that was connected
  std::string said_, heard_;
  std::size_t load_left_ = kLoadBytes;  // of the other's, to come
  control::Timers::Timer limit_, again_;
};

}  // namespace lockstep::links
