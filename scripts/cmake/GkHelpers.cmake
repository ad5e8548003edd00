# Helpers of the build: foreign libraries, one static library a folder, one program a test.

find_package(PkgConfig REQUIRED)

# Imported targets gk_dep_<name> for the libraries of docs/DESIGN.md section 14, and the folder of
# the CUDA headers (headers only: the libraries are opened at run time).
function(gk_find_libraries)
  foreach(pair uv:libuv zmq:libzmq jansson:jansson sodium:libsodium microhttpd:libmicrohttpd sqlite3:sqlite3 zlib:zlib)
    string(REPLACE ":" ";" pair ${pair})
    list(GET pair 0 name)
    list(GET pair 1 module)
    pkg_check_modules(GK_${name} REQUIRED IMPORTED_TARGET GLOBAL ${module})
    add_library(gk_dep_${name} ALIAS PkgConfig::GK_${name})
  endforeach()
  find_path(GK_CUDA_INCLUDE NAMES nvrtc.h
    HINTS $ENV{CUDA_HOME}/include /usr/local/cuda/include /opt/cuda/include /usr/include)
  if(NOT GK_CUDA_INCLUDE)
    message(FATAL_ERROR "nvrtc.h not found in $CUDA_HOME/include, /usr/local/cuda/include, "
      "/opt/cuda/include or /usr/include. Set CUDA_HOME to the folder of the CUDA toolkit.")
  endif()
  add_library(gk_dep_cuda INTERFACE)
  target_include_directories(gk_dep_cuda SYSTEM INTERFACE ${GK_CUDA_INCLUDE})
  target_link_libraries(gk_dep_cuda INTERFACE ${CMAKE_DL_LIBS})
  add_library(gk_dep_cuda_headers ALIAS gk_dep_cuda)
endfunction()

# gk_library(NAME SOURCES a.c b.c LIBS gk_core ...)
function(gk_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC gk_flags ${arg_LIBS})
endfunction()

# gk_program(NAME SOURCES ... LIBS ...): an executable in bin/.
function(gk_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE gk_flags ${arg_LIBS})
endfunction()

# gk_test(test_x LIBS gk_core ... [LABEL emu]): test_x.c as a program and a ctest case of its own
# process. Further sources after SOURCES. GK_SOURCE_DIR and GK_BIN_DIR are defined for data files.
# Labels are the parts of scripts/test: unit (default), emu, corners, e2e, fuzz, tidy, mutants.
# A program that cannot run here (no NVRTC, no GPU) exits with 77: skipped and counted, never passed.
function(gk_test name)
  cmake_parse_arguments(arg "" "TIMEOUT;LABEL" "SOURCES;LIBS" ${ARGN})
  if(NOT arg_LABEL)
    set(arg_LABEL unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${name} ${name}.c ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_compile_definitions(${name} PRIVATE
    GK_SOURCE_DIR="${CMAKE_SOURCE_DIR}" GK_BIN_DIR="${CMAKE_BINARY_DIR}/bin")
  target_link_libraries(${name} PRIVATE gk_flags ${arg_LIBS} cmocka)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS ${arg_LABEL}
    SKIP_RETURN_CODE 77)
endfunction()

# gk_embed(OUT_VARIABLE FILE SYMBOL): a C file that holds the text of FILE as `const char SYMBOL[]`; its path is put
# into OUT_VARIABLE.
function(gk_embed out file symbol)
  set(made ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.c)
  set(script ${CMAKE_SOURCE_DIR}/scripts/cmake/EmbedText.cmake)
  add_custom_command(OUTPUT ${made}
    COMMAND ${CMAKE_COMMAND} -DIN=${CMAKE_CURRENT_SOURCE_DIR}/${file} -DOUT=${made} -DNAME=${symbol} -P ${script}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${file} ${script} VERBATIM)
  set(${out} ${made} PARENT_SCOPE)
endfunction()
