# Imported targets for the libtorch inside a PyPI torch wheel: torch::cpu (libtorch_cpu + libc10).
# find_package(Torch) needs a CUDA toolkit on this wheel, so it is not used (docs/decisions/0002).
# Input: LOCKSTEP_TORCH_DIR (variable or environment), an active virtual environment, python3, or what ./quickstart fetched
# (find_torch, beside this file when installed, else in tools/).
if(NOT LOCKSTEP_TORCH_DIR AND DEFINED ENV{LOCKSTEP_TORCH_DIR})
  set(LOCKSTEP_TORCH_DIR $ENV{LOCKSTEP_TORCH_DIR})
endif()
if(NOT LOCKSTEP_TORCH_DIR)
  find_file(LOCKSTEP_FIND_TORCH find_torch REQUIRED NO_DEFAULT_PATH
    PATHS ${CMAKE_CURRENT_LIST_DIR} ${CMAKE_CURRENT_LIST_DIR}/../tools)
  mark_as_advanced(LOCKSTEP_FIND_TORCH)
  execute_process(
    COMMAND ${LOCKSTEP_FIND_TORCH} OUTPUT_VARIABLE LOCKSTEP_TORCH_DIR
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set(LOCKSTEP_TORCH_DIR "${LOCKSTEP_TORCH_DIR}" CACHE PATH "the torch folder of a wheel (site-packages/torch)")
foreach(file include/torch/csrc/api/include/torch/torch.h lib/libtorch_cpu.so lib/libc10.so
        include/torch/headeronly/version.h)
  if(NOT EXISTS ${LOCKSTEP_TORCH_DIR}/${file})
    message(FATAL_ERROR "no libtorch: '${LOCKSTEP_TORCH_DIR}/${file}' does not exist. Run ./quickstart, "
      "activate a virtual environment with torch >= 2.11, or set LOCKSTEP_TORCH_DIR to its torch folder.")
  endif()
endforeach()
file(STRINGS ${LOCKSTEP_TORCH_DIR}/include/torch/headeronly/version.h lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9]+" "." lines "${lines}")
string(REGEX REPLACE "^\\.|\\.$" "" lines "${lines}")
set(LOCKSTEP_TORCH_VERSION ${lines} CACHE INTERNAL "of the libtorch found")
if(LOCKSTEP_TORCH_VERSION VERSION_LESS 2.11)
  message(FATAL_ERROR "torch ${LOCKSTEP_TORCH_VERSION} in ${LOCKSTEP_TORCH_DIR} is too old: at least 2.11 is needed.")
endif()
message(STATUS "libtorch ${LOCKSTEP_TORCH_VERSION} in ${LOCKSTEP_TORCH_DIR}")
if(NOT TARGET torch::cpu)
  # -idirafter: the wheel carries its own fmt, which must not shadow Debian's.
  add_library(torch::c10 SHARED IMPORTED GLOBAL)
  set_target_properties(torch::c10 PROPERTIES
    IMPORTED_LOCATION ${LOCKSTEP_TORCH_DIR}/lib/libc10.so
    INTERFACE_COMPILE_OPTIONS "SHELL:-idirafter ${LOCKSTEP_TORCH_DIR}/include;SHELL:-idirafter ${LOCKSTEP_TORCH_DIR}/include/torch/csrc/api/include"
    INTERFACE_COMPILE_DEFINITIONS "_GLIBCXX_USE_CXX11_ABI=1")
  add_library(torch::cpu SHARED IMPORTED GLOBAL)
  set_target_properties(torch::cpu PROPERTIES
    IMPORTED_LOCATION ${LOCKSTEP_TORCH_DIR}/lib/libtorch_cpu.so
    INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D_GLOO;USE_RPC;USE_TENSORPIPE"
    INTERFACE_LINK_LIBRARIES torch::c10)
endif()
set(TorchWheel_FOUND TRUE)
