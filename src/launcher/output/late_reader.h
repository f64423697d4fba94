// Says whom the run waits for when its workers' output has no room: whoever reads the console and
// takes nothing. Once, after 5 s; again if it pauses another time.
//
// Threads: the loop's; it looks for the reader's name beside it.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/deadline.h"
#include "launcher/background.h"
#include "launcher/output/console.h"

namespace lockstep::launcher {

class LateReader {
 public:
  // Both must outlive the object.
  LateReader(const Console& console, Background& background)
      : console_(console), background_(background) {}

  // Now and then. `where` workers may sit in a write(2); none: nowhere.
  void look(std::optional<Console::Target> where);

 private:
  const Console& console_;
  Background& background_;
  std::optional<Console::Target> where_;
  std::pair<std::size_t, int> progress_;
  Deadline tell_at_ = Deadline::in({});
  bool told_ = false;
};

// Who reads what is written to `fd`: "process 4711 (less)", or several; empty: nobody is found, of
// those whose descriptors we may see.
std::string readers_of(int fd);

}  // namespace lockstep::launcher
