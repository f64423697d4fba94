#include "nodes/words.h"

#include "base/signal_name.h"

namespace lockstep::nodes {

std::string stop_text(const std::string& who, const NodeWord& word) {
  if (!word.stop_why.empty()) return word.stop_why;
  return who + " was stopped by " +
         (word.signal_by.empty() ? signal_name(word.signal) : word.signal_by);
}

}  // namespace lockstep::nodes
