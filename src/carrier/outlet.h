// What goes to one other host: link::Pair says what, in the order of need; here it becomes frames.
//
// Threads: one at a time. Errors: none.
#pragma once

#include <cstdint>
#include <deque>

#include "link/memory.h"
#include "link/messages.h"
#include "link/pair.h"
#include "links/links.h"

namespace lockstep::carrier {

class Outlet {
 public:
  Outlet(coord::Stay self, coord::Stay other) : host_(other.host), pair_(self, other) {}

  void obey(const link::Orders& orders);
  void open(const link::Have& theirs);
  void close();
  void came(const link::Item& table) { pair_.came(table); }
  // Until enough waits to be sent, or nothing is left.
  void send(links::Links& links, const link::Memory& memory, link::BoardOwners& owners);

 private:
  void send(links::Links& links, const link::Memory& memory, const link::Item& item) const;
  bool send_image(links::Links& links, const link::Memory& memory, const link::Item& item);

  const link::HostIndex host_;
  link::Pair pair_;
  std::deque<link::Item> next_;  // the first of what may be sent, as of when it was asked for
  std::size_t deaths_ = 0;       // on the board, then
  // Of a copy of the state, slices of it.
  link::Item image_;
  std::size_t image_sent_ = 0;
};

}  // namespace lockstep::carrier
