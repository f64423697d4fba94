// Who fills whom in a round: pure, from the answers.
//
// Threads: values. Errors: none.
#pragma once

#include <map>
#include <vector>

#include "link/marks.h"
#include "link/rounds.h"

namespace lockstep::link {

using Answers = std::map<HostIndex, Answer>;

// The order in which all boards append: first what some board has already appended, in its order;
// then the others being taken out, by index. (What boards have appended are beginnings of one
// list.)
std::vector<Stay> order_of(const Round& round, const Answers& answers);

// What all boards that answer have appended, but those that have no state yet: they own nothing.
std::vector<Stay> appended_by_all(const Answers& answers);

// One for each that answers. Each item of those being taken out goes to each of round.table that
// lacks it, from the next holder by index, the lowest behind the highest: so no one has to send to
// all. Whose an item is follows from the tables in the
// answers and `base`; of a transaction whose table is in no answer everything is filled.
std::vector<Fills> fills_of(const Round& round, const Answers& answers,
                            const std::vector<Stay>& order, const std::vector<Stay>& base,
                            const Plan& plan);

}  // namespace lockstep::link
