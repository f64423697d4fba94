# Helpers that every room uses: one warning set, one way to make a room, a program, a test. What is set here is seen in this
# project alone; the compiler's launcher, the build type and the like are the top-level project's to choose.
if(LOCKSTEP_INSTALL)
  include(GNUInstallDirs)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)  # a shared library may link the rooms
set(CMAKE_UNITY_BUILD ${LOCKSTEP_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 16)
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)  # who links a room from a folder beside this one needs what the room needs
# Of another project's warnings and tools nothing is for our code, nor for our headers in its files.
set(lockstep_is_guest OFF)
if(NOT PROJECT_IS_TOP_LEVEL AND NOT LOCKSTEP_WERROR)
  set(lockstep_is_guest ON)
  set(CMAKE_COMPILE_WARNING_AS_ERROR OFF)
  foreach(tool CLANG_TIDY CPPCHECK CPPLINT INCLUDE_WHAT_YOU_USE)
    set(CMAKE_CXX_${tool})
  endforeach()
endif()
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  get_property(multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  if(NOT CMAKE_BUILD_TYPE AND NOT multi_config)
    set(CMAKE_BUILD_TYPE Release)
  endif()
  find_program(LOCKSTEP_CCACHE ccache)
  if(LOCKSTEP_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${LOCKSTEP_CCACHE})
  endif()
endif()
find_package(Threads REQUIRED)

add_library(lockstep_flags INTERFACE)
# -Wno-restrict: g++ 12 warns falsely about std::string concatenation at -O3 (GCC bug 105329).
# -Wno-sign-conversion: not part of g++'s -Wconversion.
set(warnings -Wall -Wextra -Wconversion -Wshadow $<$<BOOL:${LOCKSTEP_WERROR}>:-Werror>)
set(no_warnings $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion>)
if(lockstep_is_guest)
  set(warnings -w)
  set(no_warnings)
endif()
# Our arithmetic must give the same bits on every CPU (docs/design/arithmetic.md), whatever flags the project around it has.
set(arithmetic -ffp-contract=off -fno-math-errno)
if("${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_RELEASE} ${CMAKE_CXX_FLAGS_RELWITHDEBINFO}" MATCHES "-Ofast|-ffast-math|-funsafe-math")
  list(PREPEND arithmetic -fno-fast-math)
endif()
target_compile_options(lockstep_flags INTERFACE ${warnings} ${arithmetic} ${no_warnings})
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
# A build of no type, which a project around this one may have, is optimised all the same.
function(lockstep_room name)
  cmake_parse_arguments(ROOM "NO_THREADS;HOT;COLD" "" "DEPS" ${ARGN})
  add_library(lockstep_${name} STATIC ${ROOM_UNPARSED_ARGUMENTS})
  add_library(lockstep::${name} ALIAS lockstep_${name})
  target_link_libraries(lockstep_${name} PUBLIC ${ROOM_DEPS} PRIVATE $<BUILD_INTERFACE:lockstep_flags>)
  target_compile_features(lockstep_${name} PUBLIC cxx_std_20)
  set_target_properties(lockstep_${name} PROPERTIES EXPORT_NAME ${name}
    SYSTEM ${lockstep_is_guest})
  target_compile_options(lockstep_${name} PRIVATE $<$<STREQUAL:$<CONFIG>,>:-O2>)
  if(ROOM_HOT)
    target_compile_options(lockstep_${name} PRIVATE $<$<CONFIG:Release>:-O3>)
  elseif(ROOM_COLD)
    target_compile_options(lockstep_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  if(ROOM_NO_THREADS AND LOCKSTEP_SANITIZE STREQUAL "thread")
    set_target_properties(lockstep_${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
  endif()
  target_include_directories(lockstep_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_ROOMS lockstep_${name})  # for cmake/Install.cmake
endfunction()

# lockstep_program(NAME DEPS rooms...): the one that a user calls, or one that this executes, from main.cpp. It lies in bin/ of the build folder (of
# the project around this one too, where its programs look for it), unless that project has another place for programs.
function(lockstep_program name)
  cmake_parse_arguments(P "" "" "DEPS" ${ARGN})
  add_executable(${name} main.cpp)
  target_link_libraries(${name} PRIVATE ${P_DEPS} lockstep_flags)
  target_compile_definitions(${name} PRIVATE LOCKSTEP_VERSION="${PROJECT_VERSION}")
  if(NOT CMAKE_RUNTIME_OUTPUT_DIRECTORY)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  endif()
endfunction()

# lockstep_test(NAME sources... [DEPS ...] [LABELS ...] [TIMEOUT s])
function(lockstep_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "DEPS;LABELS" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  if(LOCKSTEP_SANITIZE)
    math(EXPR T_TIMEOUT "3 * ${T_TIMEOUT}")
  endif()
  add_executable(${name} ${T_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${T_DEPS} lockstep_flags GTest::gtest GTest::gtest_main)
  set_target_properties(${name} PROPERTIES LOCKSTEP_IS_TEST ON)
  if(NOT "simulation" IN_LIST T_LABELS)
    target_compile_options(${name} PRIVATE -O0)  # compiled in half the time; the rooms' own speed is what counts
  endif()
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${T_TIMEOUT} LABELS "${T_LABELS}")
endfunction()
