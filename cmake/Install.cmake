# cmake --install: programs, public headers, the rooms as static libraries, and the package that find_package(lockstep) reads.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)

get_property(rooms GLOBAL PROPERTY LOCKSTEP_ROOMS)
list(REMOVE_ITEM rooms lockstep_link lockstep_links lockstep_carrier lockstep_control lockstep_star lockstep_launcher lockstep_inspect lockstep_store)  # programs' insides, not for linking
if(TARGET lockstep_library)
  list(APPEND rooms lockstep_library)
endif()
install(TARGETS lockstep lockstep-inspect lockstep-link RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS ${rooms} EXPORT lockstepTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION ${package_dir})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/lockstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/lockstepConfig.cmake.in ${PROJECT_BINARY_DIR}/lockstepConfig.cmake
  INSTALL_DESTINATION ${package_dir})
# Public names and bits may change with a minor version before 1.0, and with a major one after it.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lockstepConfig.cmake ${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindTorchWheel.cmake DESTINATION ${package_dir})
install(PROGRAMS ${PROJECT_SOURCE_DIR}/tools/find_torch DESTINATION ${package_dir})
