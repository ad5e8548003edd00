# The emulated device. Tests named *_cuda compile CUDA text with NVRTC and are skipped without it.
foreach(name test_emu_ops)
  gk_test(${name} SOURCES emu_ops.c LIBS gk_emu gk_core)
endforeach()

# Records tests/data/emu/ops.txt on a GPU; not a test.
add_executable(emu_record_ops EXCLUDE_FROM_ALL emu_record_ops.c emu_ops.c)
target_include_directories(emu_record_ops PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_definitions(emu_record_ops PRIVATE _GNU_SOURCE)
target_compile_options(emu_record_ops PRIVATE -Wall -Wextra -Wno-strict-prototypes)
target_link_libraries(emu_record_ops PRIVATE gk_core ${CMAKE_DL_LIBS})
