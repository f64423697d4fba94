// The toy with all of Lockstep in a shared library, as a project may have it: linked to it or, as a
// host of plug-ins, opened by path.
//
//   toy_by_library OPTIONS...        toy_host LIBRARY OPTIONS...
#ifdef TOY_HOST
#include <dlfcn.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  void* const library = ::dlopen(argv[1], RTLD_NOW);
  using Main = int(int, char**);
  auto* const toy =
      library == nullptr ? nullptr : reinterpret_cast<Main*>(::dlsym(library, "toy_library_main"));
  if (toy != nullptr) return toy(argc - 1, argv + 1);
  std::fprintf(stderr, "%s\n", ::dlerror());
  return 2;
}
#else
extern "C" int toy_library_main(int argc, char** argv);

int main(int argc, char** argv) { return toy_library_main(argc, argv); }
#endif
