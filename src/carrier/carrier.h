// What keeps a host's board the replica that it is to be: sends what other hosts lack, and writes
// what comes into the board (docs/design/hosts.md, "Links"). The rules are those of src/link, the
// streams those of links.
//
// Ownership: plan, memory and tell must outlive it. Threads: one, which runs the loop, and calls
// attend() after each turn of it. Errors: what is wrong with a pair ends that pair's stream, and is
// told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "carrier/inlet.h"
#include "carrier/messages.h"
#include "carrier/outlet.h"
#include "link/memory.h"
#include "link/messages.h"
#include "link/pair.h"
#include "links/links.h"

namespace lockstep::carrier {

using link::HostIndex;

class Carrier : private links::Events {
 public:
  using Tell = std::function<void(const Line& line)>;
  Carrier(const link::Plan& plan, link::Memory& memory, coord::Stay self, Tell tell)
      : plan_(plan), memory_(memory), self_(self), owners_(plan), tell_(std::move(tell)) {}

  // For whoever makes the links, which it then is given, before anything else.
  links::Events& events() { return *this; }
  void use(std::unique_ptr<links::Links> links) { links_ = std::move(links); }

  // What the agent says: `others` are the run's other hosts, each of them with its stay of now. All
  // that orders.closed does not name are connected with. When it returns, nothing of those that it
  // names can land any more: orders.round is closed (HostRounds::answer).
  void obey(const link::Orders& orders, const std::vector<links::Other>& others);

  // The board has changed, by others than this object.
  void rung() { changed_ = true; }
  // Sends what there is to be sent.
  void attend();

  // With whom a stream is up: for the agent's heartbeats.
  std::vector<HostIndex> working() const;

 private:
  // What this end knows of another host.
  struct Way {
    explicit Way(coord::Stay self, coord::Stay other) : stay(other), outlet(self, other) {}
    coord::Stay stay;
    std::uint64_t told_first = 0;  // of this board, in the last Have
    Outlet outlet;
    Inlet inlet;
  };

  void up(HostIndex host) override;
  Result<std::optional<std::span<std::byte>>> landing(HostIndex host, std::string_view header,
                                                      std::size_t bytes) override;
  Status landed(HostIndex host, std::string_view header) override;
  void room(HostIndex host) override;
  void down(HostIndex host, const links::Failure& failure) override;
  void cannot(HostIndex host, const links::Failure& failure) override;
  void turned_away(const std::string& what) override { tell_({"link: " + what}); }

  void close(HostIndex host);
  void send_have(HostIndex host);
  void settle();

  const link::Plan& plan_;
  link::Memory& memory_;
  const coord::Stay self_;
  link::BoardOwners owners_;
  const Tell tell_;
  std::unique_ptr<links::Links> links_;
  link::Orders orders_;
  link::Landings landings_;
  std::map<HostIndex, std::unique_ptr<Way>> ways_;
  bool changed_ = false;
};

}  // namespace lockstep::carrier
