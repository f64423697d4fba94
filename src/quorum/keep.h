// Which hosts stay when some pairs of them do not work.
//
// Threads: values. Errors: none.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "quorum/set.h"

namespace lockstep::quorum {

using Cut = std::vector<std::pair<Member, Member>>;  // pairs that do not work, in either order

// The largest part of `all` in which all pairs work and that may go on; of equal ones that with
// more of `in_table`, then that with the lower hosts. `may_go_on`: what may not, no part of it may.
// Empty: none may. Exact while few pairs are cut; looks at no more than some thousand parts.
Members to_keep(const Members& all, const Cut& cut, const Members& in_table,
                const std::function<bool(const Members&)>& may_go_on);
// Of a set, where a quorum of it may.
Members to_keep(const Set& set, const Cut& cut, const Members& in_table, const Ties& ties);

}  // namespace lockstep::quorum
