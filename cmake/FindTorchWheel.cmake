# Imported targets for the libtorch inside a PyPI torch wheel, or of an unpacked libtorch: torch::cpu (libtorch_cpu + libc10).
# find_package(Torch) needs a CUDA toolkit on this wheel, so it is not used (docs/decisions/0002). A project may use it itself,
# before or after: none of the targets are the same, and the libtorch then is that one.
# Which one, the first of: LOCKSTEP_TORCH_DIR (variable or environment); Torch_DIR, or Torch in CMAKE_PREFIX_PATH, as for
# find_package(Torch); of an installed lockstep what it was built with; an active virtual environment, python3, or what
# ./quickstart fetched (find_torch, beside this file when installed, else in tools/).
if(NOT LOCKSTEP_TORCH_DIR AND DEFINED ENV{LOCKSTEP_TORCH_DIR})
  set(LOCKSTEP_TORCH_DIR "$ENV{LOCKSTEP_TORCH_DIR}")
endif()
if(NOT LOCKSTEP_TORCH_DIR)
  find_file(LOCKSTEP_TORCH_CONFIG TorchConfig.cmake NO_CACHE NO_DEFAULT_PATH PATH_SUFFIXES share/cmake/Torch Torch
    HINTS ${Torch_DIR} ${Torch_ROOT} ENV Torch_ROOT ${CMAKE_PREFIX_PATH} ENV CMAKE_PREFIX_PATH)
  if(LOCKSTEP_TORCH_CONFIG)
    get_filename_component(LOCKSTEP_TORCH_DIR "${LOCKSTEP_TORCH_CONFIG}/../../../.." ABSOLUTE)
  endif()
endif()
if(NOT LOCKSTEP_TORCH_DIR AND lockstep_torch_fallback AND EXISTS "${lockstep_torch_fallback}/lib/libtorch_cpu.so")
  set(LOCKSTEP_TORCH_DIR "${lockstep_torch_fallback}")
endif()
if(NOT LOCKSTEP_TORCH_DIR)
  find_file(LOCKSTEP_FIND_TORCH find_torch REQUIRED NO_CACHE NO_DEFAULT_PATH
    PATHS "${CMAKE_CURRENT_LIST_DIR}" "${CMAKE_CURRENT_LIST_DIR}/../tools")
  execute_process(
    COMMAND "${LOCKSTEP_FIND_TORCH}" OUTPUT_VARIABLE LOCKSTEP_TORCH_DIR
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set(LOCKSTEP_TORCH_DIR "${LOCKSTEP_TORCH_DIR}" CACHE PATH "the torch folder of a wheel (site-packages/torch)")
foreach(file include/torch/csrc/api/include/torch/torch.h lib/libtorch_cpu.so lib/libc10.so
        include/torch/headeronly/version.h)
  if(NOT EXISTS "${LOCKSTEP_TORCH_DIR}/${file}")
    message(FATAL_ERROR "no libtorch: '${LOCKSTEP_TORCH_DIR}/${file}' does not exist. Run ./quickstart, "
      "activate a virtual environment with torch >= 2.11, or set LOCKSTEP_TORCH_DIR to its torch folder.")
  endif()
endforeach()

function(lockstep_torch_version folder result)
  file(STRINGS "${folder}/include/torch/headeronly/version.h" lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9]+" "." lines "${lines}")
  string(REGEX REPLACE "^\\.|\\.$" "" lines "${lines}")
  set(${result} "${lines}" PARENT_SCOPE)
endfunction()
lockstep_torch_version("${LOCKSTEP_TORCH_DIR}" lockstep_version_found)
set(LOCKSTEP_TORCH_VERSION ${lockstep_version_found} CACHE INTERNAL "of the libtorch found")
if(LOCKSTEP_TORCH_VERSION VERSION_LESS 2.11)
  message(FATAL_ERROR "torch ${LOCKSTEP_TORCH_VERSION} in ${LOCKSTEP_TORCH_DIR} is too old: at least 2.11 is needed.")
endif()
message(STATUS "libtorch ${LOCKSTEP_TORCH_VERSION} in ${LOCKSTEP_TORCH_DIR}")

# One program cannot have two versions of libtorch. Looked at once the whole project is read: it may call find_package(Torch) later.
function(lockstep_same_torch)
  get_filename_component(other "${Torch_DIR}/../../.." ABSOLUTE)
  if(NOT Torch_DIR OR NOT EXISTS "${other}/include/torch/headeronly/version.h")
    return()
  endif()
  lockstep_torch_version("${other}" version)
  if(NOT version VERSION_EQUAL LOCKSTEP_TORCH_VERSION)
    message(FATAL_ERROR "find_package(Torch) has found torch ${version} in '${other}', and lockstep torch ${LOCKSTEP_TORCH_VERSION} "
      "in '${LOCKSTEP_TORCH_DIR}'. Set LOCKSTEP_TORCH_DIR to the first folder, or Torch_DIR to the second's share/cmake/Torch.")
  endif()
endfunction()

if(NOT TARGET torch::cpu)
  cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL lockstep_same_torch)
  # -idirafter: the wheel carries its own fmt, which must not shadow Debian's. SHELL: splits at blanks, hence the quotes.
  string(REGEX REPLACE "([\\\"])" "\\\\\\1" quoted "${LOCKSTEP_TORCH_DIR}/include")
  add_library(torch::c10 SHARED IMPORTED GLOBAL)
  set_target_properties(torch::c10 PROPERTIES
    IMPORTED_LOCATION "${LOCKSTEP_TORCH_DIR}/lib/libc10.so"
    INTERFACE_COMPILE_OPTIONS "SHELL:-idirafter \"${quoted}\";SHELL:-idirafter \"${quoted}/torch/csrc/api/include\""
    INTERFACE_COMPILE_DEFINITIONS "_GLIBCXX_USE_CXX11_ABI=1")
  add_library(torch::cpu SHARED IMPORTED GLOBAL)
  set_target_properties(torch::cpu PROPERTIES
    IMPORTED_LOCATION "${LOCKSTEP_TORCH_DIR}/lib/libtorch_cpu.so"
    INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D_GLOO;USE_RPC;USE_TENSORPIPE"
    INTERFACE_LINK_LIBRARIES torch::c10)
endif()
