#include "quorum/keep.h"

#include <tuple>

namespace lockstep::quorum {
namespace {

// Of each cut pair one goes: tries both, the one with more cuts first.
class Choice {
 public:
  Choice(const Cut& cut, const Members& in_table,
         const std::function<bool(const Members&)>& may_go_on)
      : cut_(cut), in_table_(in_table), may_go_on_(may_go_on) {}

  void look(const Members& left) {
    if (++looked_ > 4096 || left.size() < best_.size() || !may_go_on_(left)) return;
    const auto pair = std::ranges::find_if(cut_, [&left](const auto& one) {
      return left.contains(one.first) && left.contains(one.second);
    });
    if (pair == cut_.end()) return settle(left);
    const auto& [a, b] = *pair;
    const bool a_first =
        cuts_of(a, left) > cuts_of(b, left) || (cuts_of(a, left) == cuts_of(b, left) && a > b);
    for (const Member& goes : {a_first ? a : b, a_first ? b : a}) {
      Members fewer = left;
      fewer.erase(goes);
      look(fewer);
    }
  }
  const Members& best() const { return best_; }

 private:
  std::ptrdiff_t cuts_of(const Member& one, const Members& left) const {
    return std::ranges::count_if(cut_, [&](const auto& pair) {
      return (pair.first == one && left.contains(pair.second)) ||
             (pair.second == one && left.contains(pair.first));
    });
  }
  auto worth(const Members& members) const {
    return std::tuple(members.size(), std::ranges::count_if(members, [this](const Member& one) {
                        return in_table_.contains(one);
                      }));
  }
  void settle(const Members& left) {
    if (worth(left) > worth(best_) || (worth(left) == worth(best_) && left < best_)) best_ = left;
  }

  const Cut& cut_;
  const Members& in_table_;
  const std::function<bool(const Members&)>& may_go_on_;
  Members best_;
  int looked_ = 0;
};

}  // namespace

Members to_keep(const Members& all, const Cut& cut, const Members& in_table,
                const std::function<bool(const Members&)>& may_go_on) {
  Choice choice(cut, in_table, may_go_on);
  choice.look(all);
  return choice.best();
}

Members to_keep(const Set& set, const Cut& cut, const Members& in_table, const Ties& ties) {
  return to_keep(Members(set.members.begin(), set.members.end()), cut, in_table,
                 [&](const Members& left) { return is_quorum(set, left, ties); });
}

}  // namespace lockstep::quorum
