# Helpers that every room uses: one warning set, one way to make a room, a test, a program.
include(GNUInstallDirs)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
find_program(LOCKSTEP_CCACHE ccache)
if(LOCKSTEP_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${LOCKSTEP_CCACHE})
endif()
find_package(Threads REQUIRED)

add_library(lockstep_flags INTERFACE)
# -ffp-contract=off: our arithmetic must give the same bits on every CPU (docs/design/arithmetic.md).
# -Wno-restrict: g++ 12 warns falsely about std::string concatenation at -O3 (GCC bug 105329).
target_compile_options(lockstep_flags INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Werror -ffp-contract=off -fno-math-errno
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion>)  # not part of g++'s -Wconversion
target_include_directories(lockstep_flags INTERFACE
  ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(lockstep_flags INTERFACE Threads::Threads)
if(LOCKSTEP_SANITIZE)
  target_compile_options(lockstep_flags INTERFACE -fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer
    $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>  # fences order words that are atomic anyway
    # Checks of undefined behaviour treble the time it takes to compile GoogleTest's macros; the rooms have them.
    $<$<BOOL:$<TARGET_PROPERTY:LOCKSTEP_IS_TEST>>:-fno-sanitize=undefined>)
  target_link_options(lockstep_flags INTERFACE -fsanitize=${LOCKSTEP_SANITIZE})
endif()
if(LOCKSTEP_FUZZ)  # so that a fuzzer sees which of a room's branches an input took
  target_compile_options(lockstep_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# lockstep_room(NAME sources... [NO_THREADS] [HOT | COLD] [DEPS rooms and libraries...])
# NO_THREADS: nothing in it is for the thread sanitizer, which leaves it out.
# HOT: its loops need -O3. COLD: it computes little, and a release compiles it in two thirds of the time with -O1.
function(lockstep_room name)
  cmake_parse_arguments(ROOM "NO_THREADS;HOT;COLD" "" "DEPS" ${ARGN})
  add_library(lockstep_${name} STATIC ${ROOM_UNPARSED_ARGUMENTS})
  target_link_libraries(lockstep_${name} PUBLIC ${ROOM_DEPS} PRIVATE $<BUILD_INTERFACE:lockstep_flags>)
  set_target_properties(lockstep_${name} PROPERTIES EXPORT_NAME ${name}
    UNITY_BUILD ${LOCKSTEP_UNITY} UNITY_BUILD_BATCH_SIZE 16)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(lockstep_${name} PRIVATE $<$<BOOL:${ROOM_HOT}>:-O3> $<$<BOOL:${ROOM_COLD}>:-O1>)
  endif()
  if(ROOM_NO_THREADS AND LOCKSTEP_SANITIZE STREQUAL "thread")
    set_target_properties(lockstep_${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
  endif()
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_ROOMS lockstep_${name})  # for cmake/Install.cmake
  target_include_directories(lockstep_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  add_library(lockstep::${name} ALIAS lockstep_${name})
endfunction()

# lockstep_test(NAME sources... [DEPS ...] [LABELS ...] [TIMEOUT s])
function(lockstep_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "DEPS;LABELS" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  add_executable(${name} ${T_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${T_DEPS} lockstep_flags GTest::gtest GTest::gtest_main)
  set_target_properties(${name} PROPERTIES LOCKSTEP_IS_TEST ON)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${T_TIMEOUT} LABELS "${T_LABELS}")
endfunction()
