#include "pickle/banned.h"

#include <algorithm>
#include <array>

namespace lockstep::pickle {
namespace {

// Not those whose names a program of one's own may well have: code, profile, commands.
constexpr std::array<std::string_view, 23> kModules{
    "os",     "posix",     "nt",     "sys",      "subprocess", "_posixsubprocess",
    "runpy",  "importlib", "pty",    "popen2",   "shutil",     "socket",
    "ctypes", "_ctypes",   "pickle", "_pickle",  "marshal",    "cPickle",
    "pdb",    "bdb",       "timeit", "cProfile", "webbrowser"};

constexpr std::array<std::string_view, 17> kBuiltins{
    "eval",      "exec",    "execfile",   "compile",    "open",   "file",
    "getattr",   "setattr", "delattr",    "__import__", "reload", "input",
    "raw_input", "apply",   "breakpoint", "globals",    "vars"};

bool has(const auto& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

bool is_banned(std::string_view module, std::string_view name) {
  // A name may go on within the module: protocol 4 has "Outer.Inner" in one.
  const std::string_view outer = name.substr(0, name.find('.'));
  if (module == "builtins" || module == "__builtin__" || module == "__builtins__")
    return has(kBuiltins, outer);
  return has(kModules, module.substr(0, module.find('.')));
}

}  // namespace lockstep::pickle
