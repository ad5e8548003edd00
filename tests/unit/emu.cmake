# The emulated device. Tests that compile CUDA text with NVRTC are skipped where there is none.
gk_test(test_emu_ops SOURCES emu_ops.c LIBS gk_emu gk_core)
foreach(name test_emu_cuda test_emu_faults test_emu_flow test_emu_memory test_emu_mma test_emu_decode test_emu_model test_emu_order test_emu_hopper test_emu_ahead)
  gk_test(${name} SOURCES emu_for_tests.c nvrtc_for_tests.c LIBS gk_emu gk_core gk_dep_cuda m)
endforeach()
gk_test(test_emu_dot SOURCES emu_dots.c emu_for_tests.c nvrtc_for_tests.c LIBS gk_emu gk_core gk_dep_cuda m)
gk_test(test_emu_wgmma SOURCES wgmma_rig.c emu_for_tests.c nvrtc_for_tests.c LIBS gk_emu gk_core gk_dep_cuda m)

# Records tests/data/emu/ops.txt on a GPU; not a test.
add_executable(emu_record_ops EXCLUDE_FROM_ALL emu_record_ops.c emu_ops.c)
target_include_directories(emu_record_ops PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_definitions(emu_record_ops PRIVATE _GNU_SOURCE)
target_link_libraries(emu_record_ops PRIVATE gk_core ${CMAKE_DL_LIBS})

# The same for tests/data/emu/dots.txt.
add_executable(emu_record_dots EXCLUDE_FROM_ALL emu_record_dots.c emu_dots.c)
target_include_directories(emu_record_dots PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_definitions(emu_record_dots PRIVATE _GNU_SOURCE)
target_link_libraries(emu_record_dots PRIVATE ${CMAKE_DL_LIBS})
