#pragma once

#include <functional>

namespace lockstep::data {

// Asked again and again by what takes long, at least once a second: is it to end? Empty: never.
using Stopped = std::function<bool()>;

}  // namespace lockstep::data
